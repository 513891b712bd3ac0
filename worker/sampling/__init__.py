"""Samples of live attempts: CPU, memory, disk, network and GPUs, every second or as set (docs/gpus.md).

``Sampler`` looks at all attempts in one round and writes what it saw into two files of each, on the Worker's own disk.
From there they are copied to the shared mount as logs are. The formats and sums are those of ``headway.samples``.
"""
