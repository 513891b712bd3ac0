"""What Headway costs, compared with the same work without Headway in the same run.

python -m benchmarks                 everything (needs root for the container parts), five minutes
python -m benchmarks idle flow       only these
"""
