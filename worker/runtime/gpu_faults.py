"""What it means that a container was not given its GPUs: who is at fault, and what to do. Pure.

The texts are those of Docker Engine 20.10 to 28, of NVIDIA's container toolkit 1.8 to 1.17, and of CDI.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from headway.model.reasons import EndWord

from ..ports import RuntimeRefused

_TAIL = 200
# A program of the toolkit where an engine says what it ran. Images, datasets and folders may have the same names.
_RAN = r'exec:? "?(/[^\s":]*/)?nvidia-(container|ctk|cdi)[\w-]*"?: '
_MISSING = re.compile(
    r"could not select device driver|unknown or invalid runtime name: nvidia|"
    rf"{_RAN}(executable file not found|(stat [^:]*: )?no such file)"
)
_RUNS_NOT = re.compile(_RAN)
_REQUIREMENT = re.compile(r"requirement error: (?:unsatisfied condition: (?P<wanted>[^,]+)|(?P<other>.*))")
# The toolkit mounts the driver's files into the container's root. There only files of the image are in its way.
_IN_IMAGE = re.compile(
    r"mount error: .*?/(?:merged|rootfs)(?P<file>/\S*?): (?P<why>file exists|not a directory|is a directory|"
    r"too many levels of symbolic links|no such file or directory)"
)
_CARD = re.compile(
    r"unknown device|gpu is lost|device handle|insufficient permissions on device|"
    r"unresolvable CDI devices [^:]*=(?!all\b)",
    re.IGNORECASE,
)
_NO_CDI = re.compile(r'could not select device driver "cdi"|CDI (is )?(not enabled|disabled)|unknown device driver cdi')
# Of the device files and libraries that the Worker names itself.
_NO_NODE = re.compile(r'gathering device information while adding custom device "(?P<file>[^"]*/dev/(nvidia[\w/-]*))"')
_NO_LIBRARY = re.compile(
    r"bind source path does not exist: (?P<file>/\S*/(lib(cuda|nvcuvid|nvidia-)[\w.-]*\.so[\w.]*|nvidia-smi))"
)
_OF_CARD = re.compile(r"nvidia\d+|nvidia-caps/.*")
_CDI = re.compile(r"CDI device inj|unresolvable CDI|failed to inject CDI|CDI registry", re.IGNORECASE)
_MISMATCH = re.compile(r"driver/library version mismatch", re.IGNORECASE)
_HANGS = re.compile(r"driver rpc error: timed out|deadline exceeded|hook.*(timed out|timeout)", re.IGNORECASE)
_DRIVER = re.compile(
    r"driver not loaded|load library failed|nvml error|initialization error|driver rpc error|cuda error|driver error",
    re.IGNORECASE,
)
# The toolkit's own words, where it can't tell the image's part from the machine's.
_UNSURE = re.compile(r"ldcache error|ldconfig|mount error", re.IGNORECASE)
_HOOK = re.compile(
    r"error running \S*\s?hook|error executing hook|(^|\s)nvidia-(container|ctk|cdi)[\w-]*: |"
    r"(^|\s)(libnvidia-container|libcuda|libnvidia-ml)[\w.]*: ",
    re.IGNORECASE,
)
# runc's own words of any mount. The toolkit has it mount the driver's files where they lie on the machine.
_MOUNTS = re.compile(r'mounting "[^"]*" to rootfs')
_DRIVERS_FILE = re.compile(r'mounting "(?P<file>/(?!root/|headway/)[^"]*(nvidia|cuda)[^"]*)" to rootfs at "(?P=file)"')
_NAMES = re.compile(r""""[^"]*"|'\S*'|(?<![^\s(=])/\S*""")
_HOOK_ENDED = re.compile(r"error (running|executing) [^,]*hook[^,]*")
_MODE = re.compile(r"Auto-detected mode as '?\w+'?")


class GpuFaultKind(enum.Enum):
    """Who is at fault."""

    NODE = "node"  # no container of this machine is given GPUs
    CARD = "card"
    IMAGE = "image"
    UNSURE = "unsure"  # another container has to tell


@dataclass(frozen=True, slots=True)
class GpuFault:
    """``sentence`` says what is wrong and what to do, without its last full stop.

    ``absent``: the machine lacks this way of giving GPUs, so another one may work.
    """

    kind: GpuFaultKind
    sentence: str
    absent: bool = False

    def refusal(self, *, of_node: bool = False) -> RuntimeRefused:
        """The end of an attempt that met it. ``of_node``: the machine already knew."""
        if self.kind is GpuFaultKind.IMAGE:
            return RuntimeRefused(self.sentence, word=EndWord.IMAGE_BAD)
        return RuntimeRefused(self.sentence, word=EndWord.GPU_FAILED, elsewhere=True, of_node=of_node)


def gpu_fault(text: str, node: str) -> GpuFault | None:
    """What the engine's refusal of a container with GPUs means. None: it is not about the GPUs."""
    if found := _REQUIREMENT.search(text):
        return GpuFault(GpuFaultKind.IMAGE, _required(found, node))
    if found := _IN_IMAGE.search(text):
        return GpuFault(
            GpuFaultKind.IMAGE,
            f"The image's {found['file']} is in the way of a file of NVIDIA's driver, which the toolkit puts there "
            f"({found['why']}). Build the image without files of the driver",
        )
    if _NO_CDI.search(text):
        return cdi_off(node)
    if found := _NO_NODE.search(text):
        if _OF_CARD.fullmatch(found[2]):
            return node_of_card_missing(node, f"there is no /dev/{found[2]} any more")
        return device_files_missing(node, f"/dev/{found[2]}")
    if found := _NO_LIBRARY.search(text):
        return libraries_missing(node, found["file"].rpartition("/")[2])
    if _MISSING.search(text):
        return GpuFault(GpuFaultKind.NODE, not_installed(node), absent=True)
    said = f" ({_tail(text)})"
    if _MOUNTS.search(text):
        return _toolkit_fails(node, said) if _DRIVERS_FILE.search(text) else None
    runs_not = _RUNS_NOT.search(text) is not None
    text = _NAMES.sub("-", text)
    if _MISMATCH.search(text):
        return GpuFault(
            GpuFaultKind.NODE,
            f"NVIDIA's driver of {node} was updated while its old modules are loaded, so no container is given a GPU: "
            f"an admin has to restart the machine, or load the modules anew{said}",
        )
    if _CARD.search(text):
        return GpuFault(GpuFaultKind.CARD, f"{node} can't give this GPU to containers{said}")
    if _CDI.search(text):
        return GpuFault(
            GpuFaultKind.NODE,
            f"The container engine of {node} finds no CDI device of its GPUs: an admin has to write their list anew, "
            f"with `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`{said}",
        )
    if _HANGS.search(text):
        return GpuFault(GpuFaultKind.NODE, hangs(node))
    if _UNSURE.search(text):
        return GpuFault(GpuFaultKind.UNSURE, f"{node} could not give the GPU to the container{said}")
    if _DRIVER.search(text):
        return GpuFault(
            GpuFaultKind.NODE,
            f"NVIDIA's driver of {node} does not answer its container toolkit: an admin has to make `nvidia-smi` work "
            f"there{said}",
        )
    if runs_not or _HOOK.search(text):
        return _toolkit_fails(node, said)
    return None


def not_installed(node: str) -> str:
    """Of a machine whose engine has no driver for GPUs."""
    return (
        f"The GPU runtime (NVIDIA's container toolkit) is not installed on the machine {node}, or not for its engine: "
        "an admin has to install it, and run `nvidia-ctk runtime configure` there"
    )


def cdi_off(node: str) -> GpuFault:
    """Of an engine that gives no CDI devices."""
    return GpuFault(
        GpuFaultKind.NODE,
        f"The container engine of {node} gives no CDI devices: an admin has to set "
        '{"features": {"cdi": true}} in its /etc/docker/daemon.json and restart it (Docker Engine 25 or newer)',
        absent=True,
    )


def cdi_list_missing(node: str, folders: str) -> GpuFault:
    """Of an engine with CDI, and no list with the cards' UUIDs."""
    return GpuFault(
        GpuFaultKind.NODE,
        f"No CDI list of {node} (in {folders}) names its GPUs by UUID: an admin has to run `nvidia-ctk cdi generate "
        "--device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml` there",
        absent=True,
    )


def not_in_cdi_list(node: str, uuid: str) -> GpuFault:
    """Of one card that the lists leave out."""
    return GpuFault(
        GpuFaultKind.CARD,
        f"No CDI list of {node} names {uuid}: an admin has to write the list anew, with `nvidia-ctk cdi generate "
        "--device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml`",
    )


def device_files_missing(node: str, file: str) -> GpuFault:
    """Of a machine without the driver's device files."""
    return GpuFault(
        GpuFaultKind.NODE,
        f"NVIDIA's driver of {node} has made no device file {file}: an admin has to run `nvidia-modprobe -u -c=0` "
        "there, and at each start of the machine",
        absent=True,
    )


def device_file_closed(node: str, file: str, mode: int) -> GpuFault:
    """Of a device file that only some users may open."""
    return GpuFault(
        GpuFaultKind.NODE,
        f"Not all users may open the device file {file} of {node} (mode {mode:04o}), so its tasks could not: an admin "
        "has to load the module nvidia with NVreg_DeviceFileMode=0666",
    )


def libraries_missing(node: str, name: str, said: str = "") -> GpuFault:
    """Of a machine without the driver's libraries."""
    why = f" ({said})" if said else ""
    return GpuFault(
        GpuFaultKind.NODE,
        f"The driver's library {name} can't be used on {node}{why}: an admin has to install the libraries of NVIDIA's "
        "driver there, and run `ldconfig`",
        absent=True,
    )


def driver_silent(node: str) -> GpuFault:
    """Of a driver that does not tell which device file is whose."""
    return GpuFault(
        GpuFaultKind.NODE,
        f"NVIDIA's driver of {node} does not answer: an admin has to see whether `nvidia-smi` answers there",
    )


def folder_unwritable(node: str, why: str) -> GpuFault:
    """Of a Worker that can't make the folder to which the driver's files are mounted."""
    return GpuFault(
        GpuFaultKind.NODE,
        f"The Worker of {node} can't write the folder that the driver's files are mounted in ({why}): an admin has to "
        "make `worker.folder` writable",
    )


def node_of_card_missing(node: str, why: str) -> GpuFault:
    """Of one card without a device file that tasks can open."""
    return GpuFault(
        GpuFaultKind.CARD,
        f"{node} has no device file for this GPU ({why or 'its driver tells no number of it'}): an admin has to make "
        "`nvidia-smi` list it there",
    )


def hangs(node: str) -> str:
    """Of a machine where a container with GPUs neither starts nor fails."""
    return (
        f"NVIDIA's container toolkit of {node} hangs when a container is given GPUs: an admin has to see whether "
        "`nvidia-smi` and `nvidia-container-cli info` answer there"
    )


def no_gpu_offered(fault: str) -> str:
    """The node's condition."""
    return f"{fault}. Until then no task is given a GPU here."


def _toolkit_fails(node: str, said: str) -> GpuFault:
    return GpuFault(
        GpuFaultKind.NODE,
        f"NVIDIA's container toolkit of {node} fails: an admin has to make `nvidia-container-cli info` work there, "
        f"or install it anew{said}",
    )


def _required(found: re.Match[str], node: str) -> str:
    wanted = (found["wanted"] or "").strip()
    if not wanted:
        return f"What the image says in NVIDIA_REQUIRE_CUDA can't be read ({_cut(found['other'])}). Change that line"
    return (
        f"The image asks for {_cut(wanted)} (its NVIDIA_REQUIRE_CUDA), which the driver of {node} does not meet. Use "
        "an image for an older CUDA, or ask an admin for a newer driver"
    )


def _tail(text: str) -> str:
    """The last program's words, without those of the programs that called it."""
    for mark in ("nvidia-container-cli: ", "stderr: "):
        words = _cut(_MODE.sub("", text.partition(mark)[2]))
        if words:
            return words
    hook = _HOOK_ENDED.search(text)
    return _cut(hook[0] if hook else text.rpartition("OCI runtime create failed: ")[2])


def _cut(text: str) -> str:
    text = text.strip().removesuffix(": unknown").strip(" .")
    return text if len(text) <= _TAIL else f"{text[: _TAIL - 1]}…"
