"""What Headway costs, measured against a bare run of the same thing in the same run.

python -m benchmarks                 everything (needs root for the container parts), five minutes
python -m benchmarks idle flow       only these
"""
