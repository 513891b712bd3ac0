"""Whether the tests hold the guards: lines that stand between a fault and a broken promise.

`python -m benchmarks guards` takes each guard away, one at a time, in a copy of the checkout. Then it runs the tests
that are named beside the guard. One of them has to fail. The lists are the ``*.toml`` files of this folder.
"""
