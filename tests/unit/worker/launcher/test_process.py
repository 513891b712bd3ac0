"""What the user's process finds around itself, and what it can't reach."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.without_openat2 import KERNELS
from tests.unit.worker.launcher.runs import PATH, PYTHON, Runs
from worker import box as boxes
from worker.box import BoxEnd, StartStage

ACCOUNT = "20001:20002"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; pytest's own is closed."""
    with tempfile.TemporaryDirectory(prefix="hw") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def status_of(run_output: bytes) -> dict[str, str]:
    lines = (line.split(":", 1) for line in run_output.decode().splitlines() if ":" in line)
    return {key: value.strip() for key, value in lines}


def test_the_environment_is_exactly_the_one_asked_for(launch: Runs) -> None:
    env = {"PATH": PATH, "EMPTY": "", "TEXT": "pa$word$$x\nzwei 100% \t日本 =", "LD_PRELOAD_": "x", "A": "yes"}
    run = launch("env", "-0", env=env, launcher_env={"SECRET": "launcher's own"})
    assert run.end().exit_code == 0
    pairs = [line.split("=", 1) for line in run.out().decode().split("\0") if line]
    assert dict(pairs) == env
    assert len(pairs) == len(env)


def test_arguments_arrive_as_they_are(launch: Runs) -> None:
    args = ["", "a b", "%41", "line\nbreak", "'\"$x`", "日本\udce9"]
    run = launch(PYTHON, "-ISc", "import os, sys\nos.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))", *args)
    assert run.end().exit_code == 0
    assert run.out().split(b"\0") == [os.fsencode(arg) for arg in args]


def test_there_is_no_standard_input(launch: Runs) -> None:
    run = launch.sh("if read line; then echo got; else echo end; fi; readlink /proc/self/fd/0")
    run.end()
    assert run.out() == b"end\n/dev/null\n"


@pytest.mark.root
def test_an_image_without_devices_has_no_standard_input_either(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "if read line; then echo got; else echo end; fi; ls /dev"])
    hide = 'mount -t tmpfs tmpfs /dev; exec "$@"'
    run = launch.launch(box, prefix=["unshare", "--mount", "/bin/sh", "-c", hide, "sh"])
    run.end()
    assert run.out() == b"end\n"


def test_no_other_descriptor_is_open(launch: Runs) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    box = launch.prepare([PYTHON, "-ISc", "import os\nprint(sorted(os.listdir('/proc/self/fd')))"])
    run = launch.launch(box, pass_fds=(write_end,))
    os.close(write_end)
    run.end()
    os.close(read_end)
    assert run.out() == b"['0', '1', '2', '3']\n"  # 3 is the listing's own


def test_the_launcher_works_without_standard_streams_of_its_own(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo out; echo err >&2"])
    run = launch.launch(box, prefix=["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
    run.end()
    assert (run.out(), run.err()) == (b"out\n", b"err\n")


def test_signals_are_as_a_program_expects_them(launch: Runs) -> None:
    box = launch.prepare(["cat", "/proc/self/status"])
    run = launch.launch(
        box,
        prefix=[
            PYTHON,
            "-ISc",
            "import os, signal, sys\nsignal.signal(signal.SIGUSR1, "
            "signal.SIG_IGN)\nsignal.pthread_sigmask(0, [signal.SIGHUP])\n"
            "os.execv(sys.argv[1], sys.argv[1:])",
        ],
    )
    run.end()
    status = status_of(run.out())
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) == 0
    run = launch.sh("yes | head -n 1")
    assert run.end().exit_code == 0


def test_it_leads_a_session_and_is_killed_before_the_launcher(launch: Runs) -> None:
    run = launch.sh("cut -d' ' -f1,5,6 /proc/$$/stat; cat /proc/$$/oom_score_adj; umask")
    run.end()
    stat, score, mask = run.out().decode().splitlines()
    assert len(set(stat.split())) == 1
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(score) == (min(own + 500, 1000) if os.geteuid() == 0 else own)
    assert mask == "0022"


def test_a_program_is_looked_for_in_the_users_path(launch: Runs, tmp_path: Path) -> None:
    for folder, mode in (("a", 0o644), ("b", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text(f"#!/bin/sh\necho {folder}\n")
        (tmp_path / folder / "tool").chmod(mode)
    run = launch("tool", env={"PATH": f"/no/such:{tmp_path}/a:{tmp_path}/b"})
    assert run.end().exit_code == 0
    assert run.out() == b"b\n"
    end = launch("tool", env={"PATH": f"{tmp_path}/a"}).end()
    assert (end.stage, end.errno) == (StartStage.EXEC, "EACCES")
    assert launch("true", env={}).end().exit_code == 0


def test_a_missing_working_folder_is_made(launch: Runs, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    run = launch.sh("pwd", workdir=str(folder))
    assert run.end().exit_code == 0
    assert run.out().decode().strip() == str(folder)


@pytest.mark.root
def test_the_user_has_no_power_left(launch: Runs) -> None:
    run = launch("cat", "/proc/self/status", user=ACCOUNT)
    run.end()
    status = status_of(run.out())
    assert status["Uid"].split() == ["20001"] * 4
    assert status["Gid"].split() == ["20002"] * 4
    assert status["Groups"] == ""
    assert [int(status[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
    assert status["NoNewPrivs"] == "1"


@pytest.mark.root
def test_root_has_no_power_either_unless_it_shall(launch: Runs) -> None:
    run = launch("cat", "/proc/self/status", user="0:0")
    run.end()
    status = status_of(run.out())
    assert [int(status[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
    run = launch("cat", "/proc/self/status", user="0:0", drop_caps=False)
    run.end()
    assert int(status_of(run.out())["CapEff"], 16) != 0
    assert status_of(run.out())["NoNewPrivs"] == "1"


@pytest.mark.root
def test_the_run_folder_and_the_launcher_are_out_of_reach(launch: Runs, open_folder: Path) -> None:
    launch.folder = open_folder
    run = launch.sh(
        "sleep 0.1; cat $BOX/run/spec; echo x > $BOX/run/end; echo x > $BOX/attempt/deadline; rm -rf $BOX/run;"
        "ls -l /proc/$PPID/fd; kill -9 $PPID; cat $BOX/attempt/deadline",
        user=ACCOUNT,
        env={"PATH": PATH, "BOX": str(open_folder / "link")},
    )
    (open_folder / "link").symlink_to(run.box.root)
    end = run.end()
    assert end.reason is BoxEnd.EXITED
    deadline = boxes.read_deadline(run.box)
    assert run.out() in (b"", b"%d\n" % (deadline or 0))


@pytest.mark.root
def test_root_without_power_reaches_neither_launcher_nor_orders(launch: Runs) -> None:
    run = launch.sh(
        "sleep 0.1; for file in /proc/$PPID/fd/* /proc/$PPID/cwd; do readlink $file && echo seen; done;"
        "cat /proc/$PPID/environ && echo seen; ls $RUN && echo seen; cat $RUN/spec && echo seen;"
        "echo timeout_ms=1 > $RUN/limits && echo written; chmod 777 $RUN && echo changed; exit 0",
        user="0:0",
        env={"PATH": PATH, "RUN": str(launch.folder / "link")},
    )
    (launch.folder / "link").symlink_to(run.box.run)
    end = run.end()
    assert (end.reason, end.exit_code, run.out()) == (BoxEnd.EXITED, 0, b"")


@pytest.mark.root
def test_a_working_folder_below_a_closed_one_is_made_for_the_user(launch: Runs, open_folder: Path) -> None:
    folder = open_folder / "srv" / "work"
    run = launch.sh("pwd; touch here", user=ACCOUNT, workdir=str(folder))
    assert run.end().exit_code == 0
    assert (folder / "here").exists()
    for made in (folder, folder.parent):
        assert (made.stat().st_uid, made.stat().st_gid) == (20001, 20002)
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    end = launch.sh("pwd", user=ACCOUNT, workdir=str(closed)).end()
    assert (end.stage, end.errno) == (StartStage.WORKDIR, "EACCES")


# --- the image's own tables -------------------------------------------------------------------------------

PASSWD = "root:x:0:0::/root:/bin/sh\napp:x:1000:1001:App,,,:/home/app:/bin/sh\nbroken\n123:x:77:78::/:/bin/sh"
GROUP = "root:x:0:\nvideo:x:44:app,other\nrender:x:45:other\nextra:x:46:other,app\napp:x:1001:\n"


def image(folder: Path, passwd: str | None = PASSWD, group: str | None = GROUP) -> dict[str, str]:
    """A root folder with these tables; the launcher's environment that names it."""
    root = folder / "image"
    root.mkdir()
    for name, text in (("passwd", passwd), ("group", group)):
        if text is not None:
            (root / "etc").mkdir(exist_ok=True)
            (root / "etc" / name).write_text(text)
    return {"HEADWAY_ROOT": str(root)}


@pytest.mark.root
@pytest.mark.parametrize(
    ("user", "want"),
    [
        ("app", (1000, 1001, "44 46")),
        ("1000", (1000, 1001, "44 46")),
        ("app:video", (1000, 44, "")),
        ("app:4711", (1000, 4711, "")),
        ("4711", (4711, 0, "")),
        ("4711:render", (4711, 45, "")),
        ("123", (77, 78, "")),  # a name made of digits goes first, as in the engine
        ("", (0, 0, "")),
        ("root", (0, 0, "")),
    ],
)
def test_users_are_found_as_the_engine_finds_them(
    launch: Runs, tmp_path: Path, user: str, want: tuple[int, int, str]
) -> None:
    run = launch("cat", "/proc/self/status", user=user, launcher_env=image(tmp_path))
    run.end()
    status = status_of(run.out())
    assert (int(status["Uid"].split()[0]), int(status["Gid"].split()[0]), status["Groups"]) == want


@pytest.mark.parametrize("user", ["ghost", "app:ghost", "4294967295", "-1", "99999999999999999999"])
def test_unknown_users_and_groups_are_refused(launch: Runs, tmp_path: Path, user: str) -> None:
    end = launch("true", user=user, launcher_env=image(tmp_path)).end()
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.USER, "ENOENT")


@pytest.mark.root
@pytest.mark.parametrize("passwd", [None, "", PASSWD, PASSWD + "\n"])
def test_the_account_gets_a_name_in_the_container(launch: Runs, tmp_path: Path, passwd: str | None) -> None:
    env = image(tmp_path, passwd, passwd and GROUP)
    for _ in range(2):
        run = launch(
            "true",
            user=ACCOUNT,
            launcher_env=env,
            passwd_line="ada:x:20001:20002:Ada:/root:/bin/sh",
            group_line="ada:x:20002:",
            open_root=True,
        )
        assert run.end().exit_code == 0, run.log()
    root = Path(env["HEADWAY_ROOT"])
    lines = (root / "etc" / "passwd").read_text().splitlines()
    assert lines == [*(passwd or "").splitlines(), "ada:x:20001:20002:Ada:/root:/bin/sh"]
    assert (root / "etc" / "group").read_text().endswith("ada:x:20002:\n")
    assert (root / "root").stat().st_mode & 0o7777 == 0o1777


@pytest.mark.root
def test_a_user_that_the_image_knows_keeps_its_line(launch: Runs, tmp_path: Path) -> None:
    env = image(tmp_path)
    launch("true", user="1000:1001", launcher_env=env, passwd_line="ada:x:1000:1001::/root:/bin/sh").end()
    assert (Path(env["HEADWAY_ROOT"]) / "etc" / "passwd").read_text() == PASSWD


@pytest.mark.root
@pytest.mark.parametrize("mode", [None, 0o755, 0o700])
def test_everybody_may_write_in_tmp(launch: Runs, tmp_path: Path, mode: int | None) -> None:
    env = image(tmp_path)
    folder = Path(env["HEADWAY_ROOT"]) / "tmp"
    if mode is not None:
        folder.mkdir(mode)
        (folder / "kept").write_text("x")
    assert launch("true", user=ACCOUNT, launcher_env=env).end().exit_code == 0
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert mode is None or (folder / "kept").read_text() == "x"
    assert not (folder.parent / "root").exists()


@pytest.mark.root
def test_an_id_without_a_name_gets_one(launch: Runs, tmp_path: Path) -> None:
    env = image(tmp_path)
    launch("true", user="1234:77", launcher_env=env).end()
    launch("true", user="app", launcher_env=env).end()
    etc = Path(env["HEADWAY_ROOT"]) / "etc"
    assert (etc / "passwd").read_text() == f"{PASSWD}\nuser1234:x:1234:77::/root:/bin/sh\n"
    assert (etc / "group").read_text() == f"{GROUP}group77:x:77:\n"


@pytest.mark.root
@pytest.mark.parametrize("prefix", KERNELS.values(), ids=KERNELS)
def test_links_of_an_image_lead_the_launcher_nowhere_outside(launch: Runs, tmp_path: Path, prefix: list[str]) -> None:
    env = image(tmp_path, None, None)
    root, outside = Path(env["HEADWAY_ROOT"]), tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "passwd").write_text("precious")
    (root / "etc").symlink_to(outside)
    (root / "root").symlink_to("../outside")
    (root / "tmp").symlink_to(outside)
    os.mkfifo(outside / "group")
    box = launch.prepare(["true"], user=ACCOUNT, passwd_line="a:x:20001:1::/:", group_line="a:x:20002:", open_root=True)
    run = launch.launch(box, launcher_env=env, prefix=prefix)
    assert run.end().exit_code == 0
    assert (outside / "passwd").read_text() == "precious"
    assert outside.stat().st_mode & 0o7777 == 0o700


@pytest.mark.root
def test_pipes_in_the_place_of_tables_do_not_hold_the_start(launch: Runs, tmp_path: Path) -> None:
    env = image(tmp_path, None, None)
    (tmp_path / "image" / "etc").mkdir()
    for name in ("passwd", "group"):
        os.mkfifo(tmp_path / "image" / "etc" / name)
    run = launch("true", user=ACCOUNT, launcher_env=env, passwd_line="a:x:20001:1::/:", group_line="a:x:20002:")
    assert run.end().exit_code == 0


@pytest.mark.root
def test_it_works_for_an_ordinary_user(launch: Runs, open_folder: Path) -> None:
    launch.folder = open_folder
    box = launch.prepare(["/bin/sh", "-c", "id -u; (sleep 60 &) ; cat /proc/$PPID/environ; exit 4"], user="65534:65534")
    subprocess.run(["chown", "-R", "65534:65534", str(box.root)], check=True)
    run = launch.launch(box, user=65534, group=65534, extra_groups=())
    assert run.end().exit_code == 4
    assert run.out() == b"65534\n"
    box = launch.prepare(["true"], user="0:0")
    subprocess.run(["chown", "-R", "65534:65534", str(box.root)], check=True)
    end = launch.launch(box, user=65534, group=65534, extra_groups=()).end()
    assert (end.stage, end.errno) == (StartStage.USER, "EPERM")
