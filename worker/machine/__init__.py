"""Machine: the disks, GPUs, container engine and shared mount of this machine, and their conditions."""
