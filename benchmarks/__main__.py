"""Runs benchmarks by name and prints their figures; ends with 1 when a goal was missed."""

from __future__ import annotations

import os
import signal
import sys
import time

from . import (
    ahead,
    burst,
    containers,
    deaths,
    first_rows,
    flow_tls,
    fuzz,
    gpu_exclusive,
    gpu_run,
    images,
    images_in_the_way,
    interleavings,
    listing,
    lost,
    many_workers,
    partitions,
    plots,
    promises,
    restart,
    sampling,
    scheduling,
    services,
    simulation,
    small_files,
    submits,
    sweep,
    tabs,
    upload,
)
from .guards import command as guards

ALL = {
    "idle": services.idle,
    "flow": services.flow,
    "flow_tls": flow_tls.flow_tls,
    "submit": services.big_submit,
    "submits": submits.submits,
    "burst": burst.burst,
    "restart": restart.restart,
    "start": containers.start,
    "homes": containers.homes,
    "ahead": ahead.ahead,
    "many": containers.many,
    "many_workers": many_workers.many_workers,
    "images": images.images,
    "upload": upload.upload,
    "listing": listing.listing,
    "files": small_files.small_files,
    "firstrows": first_rows.first_rows,
    "gpu_exclusive": gpu_exclusive.gpu_exclusive,
    "gpu_run": gpu_run.gpu_run,
    "pass": scheduling.one_pass,
    "simulate": simulation.simulate,
    "sampling": sampling.sampling,
    "sweep": sweep.sweep,
    "tabs": tabs.tabs,
    "plots": plots.plots,
    "interleavings": interleavings.interleavings,
    "lost": lost.lost,
    "deaths": deaths.deaths,
    "fuzz": fuzz.fuzz,
    "images_in_the_way": images_in_the_way.images_in_the_way,
    "partitions": partitions.partitions,
    "promises": promises.promises,
}
NEED_ROOT = {
    "start", "homes", "ahead", "many", "images", "deaths", "gpu_exclusive", "images_in_the_way", "lost", "partitions",
}  # fmt: skip
# They take long, and measure no time: only by name.
BY_NAME = {"deaths", "fuzz", "gpu_exclusive", "images_in_the_way", "interleavings", "partitions", "promises"}


def main() -> int:
    # Ended from outside, engines and clusters of a benchmark are still taken down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.argv[1:2] == ["guards"]:  # not a figure: it only runs when it is asked for
        return guards.main(sys.argv[2:])
    names = sys.argv[1:] or [name for name in ALL if name not in BY_NAME]
    unknown = [n for n in names if n not in ALL]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}; there are {', '.join(ALL)}.", file=sys.stderr)
        return 2
    print(f"{services.cores()} cores, load {os.getloadavg()[0]:.2f}, {time.strftime('%Y-%m-%d %H:%M')}")
    missed = 0
    for name in names:
        if name in NEED_ROOT and os.geteuid() != 0:
            print(f"skipped {name}: needs root for a Docker Engine of its own")
            continue
        for figure in ALL[name]():
            print(figure, flush=True)
            missed += figure.reached is False
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
