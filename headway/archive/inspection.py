"""What is in an image, seen while its layers stream past: a shell, Python, CUDA, frameworks.

Only names that tell something are kept, so that a layer of a million files costs no memory. Layers are laid over each
other as engines do it. A whiteout takes away what lies in lower layers; a folder over a link or file replaces it.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .config import Config
from .documents import clean
from .places import PlacesOfLayer
from .tar import Member, MemberKind

_SHELLS = frozenset(
    ("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "yash", "busybox", "toybox", "coreutils", "bash.bash")
)
_PLAIN = (
    "torch",
    "torchvision",
    "torchaudio",
    "tensorflow",
    "jax",
    "jaxlib",
    "flax",
    "keras",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "xgboost",
    "lightgbm",
    "transformers",
    "accelerate",
    "diffusers",
    "datasets",
    "tokenizers",
    "peft",
    "vllm",
    "triton",
    "deepspeed",
    "lightning",
    "pytorch-lightning",
    "onnxruntime",
    "mxnet",
    "paddlepaddle",
    "cupy",
    "numba",
    "opencv-python",
    "ray",
    "mpi4py",
)
# Projects whose version is worth showing, by the name of their distribution.
_FRAMEWORKS = {
    **{name: name for name in _PLAIN},
    "tensorflow-cpu": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "onnxruntime-gpu": "onnxruntime",
    "paddlepaddle-gpu": "paddlepaddle",
    "cupy-cuda11x": "cupy",
    "cupy-cuda12x": "cupy",
    "cupy-cuda13x": "cupy",
    "opencv-python-headless": "opencv-python",
}
_CUDA_RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?")
_DISTRIBUTION = re.compile(
    r"(?:.*/)?(?:site|dist)-packages/([A-Za-z0-9][A-Za-z0-9._]{0,60})-([0-9][A-Za-z0-9.+!_]{0,60}?)(?:-py\d[\d.]*)?"
    r"\.(?:dist|egg)-info"
)
_PYTHON = re.compile(r"(?:.*/)?bin/python(\d(?:\.\d+)?)?")
_CONDA_PYTHON = re.compile(r"(?:.*/)?conda-meta/python-(\d+\.\d+\.\d+)-[^/]*\.json")
_CUDA_FILE = re.compile(r"usr/local/cuda(?:-[\d.]+)?/version\.(?:json|txt)")
# What must be kept for the paths above to be followed through links, and be noticed when replaced.
_ON_THE_WAY = re.compile(r"(?:usr/local/(?:s?bin|cuda[^/]*)|(?:.*/)?(?:site|dist)-packages)")
_IN_BIN = re.compile(r"(?:usr/|usr/local/)?s?bin/[^/]+")
_CUDA_VERSION = re.compile(r"\d+(?:\.\d+){1,3}")
_SPECIAL = (".dist-info", ".egg-info", "python", "cuda", "-packages")
_KEPT = 30_000  # names of a layer; more in such places is not a real system
_TEXT = 64 << 10  # bytes of a file that is read
_HOPS = 40


@dataclass(slots=True)
class LayerInspection:
    """What one layer does to the names that tell something. Values of ``names``: kind and target of a link."""

    names: dict[str, tuple[MemberKind, str]] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    whiteouts: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)
    places: PlacesOfLayer = field(default_factory=PlacesOfLayer)

    def add(self, path: str, member: Member) -> bool:
        """Takes a member in; True if its content is worth a :meth:`read`."""
        base = path.rpartition("/")[2]
        if base.startswith(".wh."):
            if len(self.whiteouts) + len(self.opaque) < _KEPT:
                if base == ".wh..wh..opq":
                    self.opaque.add(posixpath.dirname(path))
                elif not base.startswith(".wh..wh."):
                    self.whiteouts.add(posixpath.join(posixpath.dirname(path), base[4:]))
            return False
        if len(self.names) >= _KEPT or not _tells(path, base):
            return False
        found = _DISTRIBUTION.match(path)
        if found and found.end() < len(path):
            if path[found.end()] == "/":
                self.names.setdefault(found[0], (MemberKind.DIR, ""))
            return False
        self.names[path] = (member.kind, member.link)
        return member.kind is MemberKind.FILE and member.size <= _TEXT and _CUDA_FILE.fullmatch(path) is not None

    def read(self, path: str, content: bytes) -> None:
        """The content of a member for which :meth:`add` said True."""
        self.texts[path] = content


def _tells(path: str, base: str) -> bool:
    # Most of a million names end at one of the first two looks.
    if path.count("/") < 2 or base in _SHELLS:
        return True
    if not any(word in path for word in _SPECIAL):
        return path.startswith("usr/") and (_IN_BIN.fullmatch(path) or _ON_THE_WAY.fullmatch(path)) is not None
    return any(
        pattern.match(path) if pattern is _DISTRIBUTION else pattern.fullmatch(path)
        for pattern in (_DISTRIBUTION, _PYTHON, _ON_THE_WAY, _CUDA_FILE, _CONDA_PYTHON, _IN_BIN)
    )


@dataclass(frozen=True, slots=True)
class ImageContents:
    """What an image has."""

    has_shell: bool
    has_bash: bool
    python_version: str
    cuda_version: str
    frameworks: dict[str, str]


def inspect_layers(layers: Iterable[LayerInspection], config: Config) -> ImageContents:
    """The layers, lowest first, as one."""
    names: dict[str, tuple[MemberKind, str]] = {}
    texts: dict[str, bytes] = {}
    for layer in layers:
        _lay_over(names, texts, layer)
    versions, runtime = _distributions(names)
    python = _python(names, config)
    return ImageContents(
        has_shell=_is_program(names, "bin/sh"),
        has_bash=any(_is_program(names, f"{folder}/bash") for folder in ("bin", "usr/bin", "usr/local/bin")),
        python_version=python,
        cuda_version=_cuda(texts, versions.get("torch", ""), runtime, config),
        frameworks=dict(sorted(versions.items())),
    )


def _lay_over(names: dict[str, tuple[MemberKind, str]], texts: dict[str, bytes], layer: LayerInspection) -> None:
    gone = set(layer.whiteouts)
    for path, (kind, _) in layer.names.items():
        if kind is not MemberKind.DIR:
            gone.add(path)
    for path in [path for path in names if _hidden(path, gone, layer.opaque)]:
        del names[path]
        texts.pop(path, None)
    for path in layer.names:
        # A folder that isn't named is made on the way to what lies in it, and replaces a link as a named one does.
        for parent in _parents(path):
            if parent in names and names[parent][0] is not MemberKind.DIR:
                names[parent] = (MemberKind.DIR, "")
    names.update(layer.names)
    texts.update(layer.texts)


def _hidden(path: str, gone: set[str], opaque: set[str]) -> bool:
    if path in gone:
        return True
    return any(parent in gone or parent in opaque for parent in _parents(path)) or "" in opaque


def _parents(path: str) -> Iterable[str]:
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def _is_program(names: dict[str, tuple[MemberKind, str]], path: str) -> bool:
    found = _follow(names, path)
    if found in names:
        return names[found][0] in (MemberKind.FILE, MemberKind.HARDLINK)
    # Where a link leads out of what was kept, it is taken to lead somewhere; a shell would have been kept.
    return bool(found) and found != path and not _tells(found, posixpath.basename(found))


def _follow(names: dict[str, tuple[MemberKind, str]], path: str) -> str:
    """Where a path really leads; "" if in a circle."""
    for _ in range(_HOPS):
        for cut in [*(at for at, letter in enumerate(path) if letter == "/"), len(path)]:
            kind, target = names.get(path[:cut], (None, ""))
            if kind is MemberKind.SYMLINK:
                base = "" if target.startswith("/") else posixpath.dirname(path[:cut])
                path = posixpath.normpath(posixpath.join("/", base, target.lstrip("/")) + path[cut:]).lstrip("/")
                break
        else:
            return path
    return ""


def _distributions(names: dict[str, tuple[MemberKind, str]]) -> tuple[dict[str, str], str]:
    versions: dict[str, str] = {}
    runtime = ""
    for path in names:
        match = _DISTRIBUTION.fullmatch(path)
        if match is None:
            continue
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        version = match[2]
        if _CUDA_RUNTIME.fullmatch(name):
            runtime = max(runtime, version, key=_order)
        known = _FRAMEWORKS.get(name)
        if known:
            versions[known] = max(versions.get(known, ""), version, key=_order)
    return versions, runtime


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:8])


def _python(names: dict[str, tuple[MemberKind, str]], config: Config) -> str:
    """The version of the Python that a task finds first, as exact as names tell it."""
    folders = (config.variable("PATH") or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").split(":")
    short = ""
    for program in ("python3", "python"):
        for folder in folders[:100]:
            path = posixpath.normpath(f"/{folder}/{program}").lstrip("/")
            real = _follow(names, path)
            if real not in names:
                continue
            match = _PYTHON.fullmatch(real)
            if match and match[1] and not short:
                short = match[1]
    exact = [match[1] for path in names if (match := _CONDA_PYTHON.fullmatch(path))]
    # Python's own images say it in the environment.
    if re.fullmatch(r"\d+\.\d+\.\d+[a-z0-9]*", config.variable("PYTHON_VERSION")):
        exact.append(config.variable("PYTHON_VERSION"))
    for version in exact:
        if short and (version == short or version.startswith(f"{short}.")):
            return version
    if short in ("", "3"):
        others = [match[1] for path in names if (match := _PYTHON.fullmatch(path)) and match[1] and "." in match[1]]
        short = max(others, key=_order, default=short)
    return short


def _cuda(texts: dict[str, bytes], torch: str, runtime: str, config: Config) -> str:
    """From what says it most plainly to what only hints at it."""
    said = [config.variable("CUDA_VERSION"), config.labels.get("com.nvidia.cuda.version", "")]
    said += [_cuda_of_file(content) for _, content in sorted(texts.items(), reverse=True)]
    said += [config.variable("NV_CUDA_CUDART_VERSION"), runtime]
    build = re.search(r"\+cu(\d{2,3})$", torch)
    if build:
        said.append(f"{build[1][:-1]}.{build[1][-1]}")
    for text in said:
        match = _CUDA_VERSION.match(clean(text))
        if match:
            return match[0]
    return ""


def _cuda_of_file(content: bytes) -> str:
    text = content.decode("utf-8", "replace")
    if text.startswith("CUDA Version"):
        return text.removeprefix("CUDA Version").strip()
    try:
        found = json.loads(text)["cuda"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""
