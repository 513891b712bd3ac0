"""The attempt box: the files by which Worker, launcher and scripted runtime exchange facts about one attempt.

Worker and launcher share no connection, so either may be killed at any time. Each message is a file of the box. A file
that may be replaced while it is read is written beside its place and then renamed. So a reader sees the old content or
the new one, never a part.

The box is a folder on the machine's local disk. It is bind-mounted into the container at a top folder whose name is new
for each attempt, so no image can have anything there::

    lock                held by the launcher (flock) as long as it lives; the Worker never holds it
    launcher            the static launcher, the container's entrypoint
    attempt/            HEADWAY_ATTEMPT_DIR, readable by the user's program
      command           the script text
      deadline          when the run will be timed out, epoch seconds
    run/                for root alone
      ticket            Worker to launcher: the program may be started, once. The launcher takes it by a rename to
                        ticket.taken, the Worker withdraws it by a rename to ticket.withdrawn
      spec              Worker to launcher: what to start and how
      launch            the Worker's own copy of the launch, for a Worker whose store was lost
      lease             Worker to launcher: `none`, or the boot-time nanosecond at which to end the container
      limits            Worker to launcher: a changed timeout
      stop              Worker to launcher: end the container, and why
      started           launcher to Worker: the user's program has been exec'd
      taken             launcher to Worker: the changed timeout that counts now
      stdout, stderr    raw spools
      index             when which bytes of a spool came
      end               launcher to Worker: how it ended; fsynced, written last
      secrets           a socket, while a task's secrets wait for the launcher; no value is in a file
      launcher.log      messages of the launcher itself

All functions here block on the local disk. Call them in a thread from asyncio code.
"""

from .files import boottime_ns, decode_value, encode_value, fsync_dir, open_regular, write_atomic
from .folders import exists, folder_of, open_below, open_beneath, remove_tree
from .index import INDEX_RECORD_BYTES, SpoolWriter, pack_index, read_index, unpack_index
from .layout import Box, container_attempt_dir, container_command, container_launcher, create
from .orders import (
    read_deadline,
    read_end,
    read_launch,
    read_lease,
    read_limits,
    read_started,
    read_stop,
    read_taken,
    write_deadline,
    write_end,
    write_lease,
    write_limits,
    write_started,
    write_stop,
)
from .protocol import (
    BoxFacts,
    BoxStanding,
    Ticket,
    boot_id,
    box_of_process,
    holder,
    inhabitants,
    is_locked,
    judge,
    kill_launcher,
    look,
    withdraw,
    write_ticket,
)
from .records import (
    BoxEnd,
    BoxError,
    BoxStopOrder,
    EndRecord,
    IndexRecord,
    LaunchSpec,
    LogLimitAction,
    SecretPlace,
    StartedRecord,
    StartStage,
    StopWord,
    Stream,
    new_place,
)
from .spec import parse_spec, read_spec, render_spec, spec_bytes, spec_digest, write_spec

__all__ = [
    "INDEX_RECORD_BYTES",
    "Box",
    "BoxEnd",
    "BoxError",
    "BoxFacts",
    "BoxStanding",
    "BoxStopOrder",
    "EndRecord",
    "IndexRecord",
    "LaunchSpec",
    "LogLimitAction",
    "SecretPlace",
    "SpoolWriter",
    "StartStage",
    "StartedRecord",
    "StopWord",
    "Stream",
    "Ticket",
    "boot_id",
    "boottime_ns",
    "box_of_process",
    "container_attempt_dir",
    "container_command",
    "container_launcher",
    "create",
    "decode_value",
    "encode_value",
    "exists",
    "folder_of",
    "fsync_dir",
    "holder",
    "inhabitants",
    "is_locked",
    "judge",
    "kill_launcher",
    "look",
    "new_place",
    "open_below",
    "open_beneath",
    "open_regular",
    "pack_index",
    "parse_spec",
    "read_deadline",
    "read_end",
    "read_index",
    "read_launch",
    "read_lease",
    "read_limits",
    "read_spec",
    "read_started",
    "read_stop",
    "read_taken",
    "remove_tree",
    "render_spec",
    "spec_bytes",
    "spec_digest",
    "unpack_index",
    "withdraw",
    "write_atomic",
    "write_deadline",
    "write_end",
    "write_lease",
    "write_limits",
    "write_spec",
    "write_started",
    "write_stop",
    "write_ticket",
]
