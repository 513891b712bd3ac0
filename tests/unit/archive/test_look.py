"""What is seen in an image: through whiteouts, links and merged folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from headway.archive import ImageInfo
from tests.support.archives import Entry, docker_save, oci_layout, tiny_image

Take = Callable[..., ImageInfo]
_SITE = "usr/local/lib/python3.11/site-packages"


def _file(path: str, content: bytes = b"x") -> Entry:
    return Entry(path, content)


def _link(path: str, target: str) -> Entry:
    return Entry(path, link_to=target)


@pytest.mark.parametrize(
    ("layers", "want_shell", "want_bash"),
    [
        ([[_file("static")]], False, False),
        ([[_file("bin/sh")]], True, False),
        ([[_file("./bin/sh")]], True, False),
        ([[_file("usr/bin/dash"), _link("usr/bin/sh", "dash"), _link("bin", "usr/bin")]], True, False),
        ([[_file("usr/bin/bash"), _link("usr/bin/sh", "bash")], [_link("bin", "usr/bin")]], True, True),
        ([[_file("bin/busybox"), _link("bin/sh", "/bin/busybox")]], True, False),
        ([[_link("bin/sh", "/bin/busybox")]], False, False),
        ([[_link("bin/sh", "sh")]], False, False),
        ([[_link("bin/sh", "/nix/store/x-bash-5/bin/bash"), _file("nix/store/x-bash-5/bin/bash")]], True, False),
        ([[_file("bin/sh")], [_file("bin/.wh.sh", b"")]], False, False),
        ([[_file("bin/sh")], [_file("bin/.wh..wh..opq", b"")]], False, False),
        ([[_file("bin/sh")], [_file(".wh.bin", b"")]], False, False),
        ([[_file("bin/sh")], [_file(".wh.bin", b""), Entry("bin"), _file("bin/sh")]], True, False),
        # A folder in a higher layer replaces a link of a lower one.
        ([[_file("usr/bin/sh"), _link("bin", "usr/bin")], [_file("bin/tool")]], False, False),
        ([[_file("usr/bin/sh")], [_file("usr", b"a file now")], [_link("bin", "usr/bin")]], False, False),
    ],
)
def test_a_shell_is_found_where_the_engine_would_find_it(
    take: Take, layers: Sequence[Sequence[Entry]], want_shell: bool, want_bash: bool
) -> None:
    info = take(docker_save(tiny_image(*layers)))
    assert (info.has_shell, info.has_bash) == (want_shell, want_bash)


@pytest.mark.parametrize(
    ("layers", "env", "want"),
    [
        ([[_file("usr/bin/python3.11"), _link("usr/bin/python3", "python3.11")]], {}, "3.11"),
        ([[_file("usr/local/bin/python3.12"), _link("usr/local/bin/python3", "python3.12")]], {}, "3.12"),
        (
            [[_file("usr/local/bin/python3.12"), _link("usr/local/bin/python", "python3.12")]],
            {"PYTHON_VERSION": "3.12.4"},
            "3.12.4",
        ),
        ([[_file("usr/bin/python3.11"), _link("usr/bin/python3", "python3.11")]], {"PYTHON_VERSION": "3.8.1"}, "3.11"),
        (
            [
                [_file("opt/conda/bin/python3.10"), _link("opt/conda/bin/python", "python3.10")],
                [_file("opt/conda/conda-meta/python-3.10.13-h9_0.json")],
                [_file("usr/bin/python3.11"), _link("usr/bin/python3", "python3.11")],
            ],
            {"PATH": "/opt/conda/bin:/usr/bin"},
            "3.11",
        ),
        ([[_file("usr/bin/perl")]], {}, ""),
    ],
)
def test_the_version_of_python_is_that_which_a_task_finds(
    take: Take, layers: Sequence[Sequence[Entry]], env: Mapping[str, str], want: str
) -> None:
    assert take(docker_save(tiny_image(*layers, env=env))).python_version == want


def test_frameworks_are_told_by_their_distributions(take: Take) -> None:
    lower = [
        _file(f"{_SITE}/torch-2.4.0+cu121.dist-info/METADATA"),
        _file(f"{_SITE}/numpy-1.26.4.dist-info/RECORD"),
        _file(f"{_SITE}/scikit_learn-1.5.0.dist-info/METADATA"),
        _file(f"{_SITE}/torch_geometric-2.5.0.dist-info/METADATA"),
        Entry(f"{_SITE}/jax-0.4.30.dist-info"),
        _file("usr/lib/python3/dist-packages/scipy-1.10.1-py3.11.egg-info"),
        _file(f"{_SITE}/somebody-1.0.dist-info/METADATA"),
    ]
    upper = [_file(f"{_SITE}/.wh.numpy-1.26.4.dist-info", b""), _file(f"{_SITE}/numpy-2.0.1.dist-info/METADATA")]
    info = take(oci_layout(tiny_image(lower, upper)))
    assert info.frameworks == {
        "jax": "0.4.30",
        "numpy": "2.0.1",
        "scikit-learn": "1.5.0",
        "scipy": "1.10.1",
        "torch": "2.4.0+cu121",
    }
    assert info.cuda_version == "12.1"


@pytest.mark.parametrize(
    ("entries", "env", "labels", "want"),
    [
        ([], {"CUDA_VERSION": "12.4.1"}, {}, "12.4.1"),
        ([], {}, {"com.nvidia.cuda.version": "11.8"}, "11.8"),
        ([_file("usr/local/cuda-12.2/version.json", b'{"cuda": {"version": "12.2.1"}}')], {}, {}, "12.2.1"),
        ([_file("usr/local/cuda/version.txt", b"CUDA Version 10.2.89\n")], {}, {}, "10.2.89"),
        ([_file("usr/local/cuda/version.json", b"[[")], {}, {}, ""),
        ([_file(f"{_SITE}/nvidia_cuda_runtime_cu12-12.1.105.dist-info/METADATA")], {}, {}, "12.1.105"),
        ([], {"CUDA_VERSION": "latest"}, {}, ""),
    ],
)
def test_cuda_is_told_by_environment_labels_or_files(
    take: Take, entries: Sequence[Entry], env: Mapping[str, str], labels: Mapping[str, str], want: str
) -> None:
    image = tiny_image([*entries, _file("x")], env={**env, "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, labels=labels)
    info = take(docker_save(image))
    assert info.cuda_version == want
    assert info.require_cuda == "cuda>=12.4"


def test_what_the_config_says_is_shown(take: Take) -> None:
    settings = {"Entrypoint": "run", "Cmd": ["a", "b\ud800\0"], "User": "app:app", "WorkingDir": "/srv"}
    info = take(docker_save(tiny_image([_file("x")], settings=settings, labels={"a": "b"}, env={"A": "1"})))
    assert (info.entrypoint, info.cmd, info.user, info.working_dir) == (("run",), ("a", "b��"), "app:app", "/srv")
    assert (info.env, info.labels, info.created_at) == (("A=1",), {"a": "b"}, 1714979289.5)
    assert ImageInfo.from_json({**info.to_json(), "newer": 1}) == info
