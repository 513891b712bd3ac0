"""What a task asks for of a machine: the fields under ``resources``, each with its row (table.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from headway.jobfile import fields
from headway.jobfile.table import Form, Option, row, table_of
from headway.units import GIB, format_cpus, format_size


def _cpus_as_json(cpus_centi: int) -> int | float:
    whole, rest = divmod(cpus_centi, 100)
    return float(format_cpus(cpus_centi)) if rest else whole


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """What one attempt is given. ``gpu_models`` empty: any model; ``gpu_memory_bytes`` None: any size,
    else the least memory that each of its GPUs must have. Both say nothing without a GPU.

    ``gpu_share_bytes``: so much memory of one GPU that is shared with others; then ``gpus`` is 0. None: no share."""

    cpus_centi: int = field(  # hundredths of a CPU
        default=100,
        metadata=row(
            "cpus",
            "more than 0, in steps of 0.01",
            float,
            read=fields.cpus,
            write=_cpus_as_json,
            foreign=("cpu", "cores", "ncpus", "num_cpus"),
            wire="cpu_centi",
            option=Option("--cpus", "For instance 2 or 0.5; 1 unless given."),
            form=Form(label="CPUs", place=3, start="1", width=5),
        ),
    )
    memory_bytes: int = field(
        default=2 * GIB,
        metadata=row(
            "memory",
            f"a size, at least `{format_size(fields.MIN_MEMORY_BYTES)}`",
            str,
            read=fields.memory,
            write=format_size,
            examples=("4GiB",),
            foreign=("mem", "ram", "memory_mb"),
            wire="memory_bytes",
            option=Option("--memory", "For instance 4GiB; 2GiB unless given."),
            form=Form(label="Memory", place=4, hint="4GiB", start="2GiB", width=8),
        ),
    )
    shm_bytes: int = field(
        default=GIB,
        metadata=row(
            "shm",
            "a size, of `/dev/shm`; at most `memory`, as which it counts",
            str,
            read=fields.size,
            write=format_size,
            default_of=lambda resources: resources.memory_bytes // 2,
            default_about="half of `memory`",
            foreign=("shm_size", "shared_memory"),
            wire="shm_bytes",
            form=Form(label="Shared memory", place=14, hint="/dev/shm", width=12, more=True),
        ),
    )
    gpus: int = field(
        default=0,
        metadata=row(
            "gpus",
            f"0 to {fields.MAX_GPUS}",
            int,
            read=fields.whole(fields.MAX_GPUS),
            foreign=("gpu", "num_gpus", "ngpus", "gpu_count"),
            wire="gpus",
            option=Option("--gpus", default=0),
            form=Form(label="GPUs", place=5, start="0", width=4),
        ),
    )
    gpu_models: tuple[str, ...] = field(
        default=(),
        metadata=row(
            "gpu_model",
            "a name or a list of names, any of which will do",
            str | list[str],
            write=list,
            default_about="any",
            foreign=("gpu_models", "gpu_type"),
            without=("gpus", "gpu_share"),
            wire="gpu_models",
            option=Option("--gpu-model", "Any of these models; may be given several times.", many=True),
            form=Form(
                label="GPU models",
                place=15,
                hint="any of A100, H100",
                more=True,
            ),
        ),
    )
    gpu_memory_bytes: int | None = field(
        default=None,
        metadata=row(
            "gpu_memory",
            "a size that each of the GPUs must have at least",
            str,
            read=fields.size,
            write=format_size,
            default_about="any",
            without=("gpus", "gpu_share"),
            wire="gpu_memory_bytes",
            form=Form(label="Memory of each GPU", place=16, hint="at least, 24GiB", width=8, more=True),
        ),
    )

    gpu_share_bytes: int | None = field(
        default=None,
        metadata=row(
            "gpu_share",
            "a size, at least `256MiB`: so much memory of one GPU that is shared with other tasks "
            "([gpus.md](gpus.md#sharing-one-gpu)); instead of `gpus`, and only with `retries`",
            str,
            read=fields.gpu_share,
            write=format_size,
            examples=("6GiB",),
            foreign=("gpu_fraction", "gpu_mem", "gpu_slice"),
            wire="gpu_share_bytes",
            option=Option(
                "--gpu-share", "So much memory of one GPU shared with others, such as 6GiB; needs --retries."
            ),
            form=Form(label="Share of a GPU", place=6, hint="6GiB, shared", width=8, more=True),
        ),
    )

    def to_json(self) -> dict[str, Any]:
        """As in a job file, without what equals a default."""
        return table_of(type(self)).written(self)


DEFAULT_RESOURCES: Final = ResourceSpec()
RESOURCES: Final = table_of(ResourceSpec)
