"""Where a task finds its files inside its container. Pure."""

from __future__ import annotations

NFS_DIR = "/root/nfs"
DATASETS_DIR = "/root/datasets"
CODE_DIR = "/root/code"
HOME = "/root"
MPS_PIPE = "/tmp/nvidia-mps"  # where NVIDIA's libraries look for MPS, if nothing else is said
SECRETS_DIR = "/run/secrets"
