"""The command line: forms of output, exit statuses, references; what needs a server is in tests/cluster."""

import os
import re
import subprocess
import sys
import time

import click
import httpx
import pytest
from click.testing import CliRunner

from headway import errors
from headway.cli import cluster, common, jobs, log_output, logs
from headway.cli.main import _COMMANDS, cli, exit_status, main, report
from headway.cli.submit import _one_task_job, _submit_without_a_file
from headway.client import Client, Profile, Refused


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, "0ms"),
        (0.25, "250ms"),
        (1, "1s"),
        (59.94, "59.9s"),
        (60, "1m"),
        (190, "3m10s"),
        (7500, "2h5m"),
        (86400 * 3 + 3600 * 4 + 59, "3d4h"),
        (None, "-"),
        (-3, "0ms"),
    ],
)
def test_durations_are_of_two_units_at_most(seconds, want):
    assert common.span(seconds) == want


@pytest.mark.parametrize(
    ("count", "want"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**30 * 16, "16.0 GiB"), (None, "-")]
)
def test_sizes_are_in_binary_units(count, want):
    assert common.size(count) == want


def test_text_of_users_can_not_paint_over_the_terminal():
    assert "\x1b" not in common.safe("a\x1b[2Jb")
    assert common.safe("日本 é") == "日本 é"


@pytest.mark.parametrize(
    ("task", "want"),
    [
        ({"state": "SUCCEEDED"}, 0),
        ({"state": "FAILED", "reason": {"fault": "user", "exit_code": 3}}, 3),
        ({"state": "FAILED", "reason": {"fault": "user", "exit_code": 137}}, 137),
        ({"state": "FAILED", "reason": {"fault": "user", "exit_code": None, "signal": 11}}, 139),
        ({"state": "TIMED_OUT", "reason": {"fault": "user", "exit_code": 0}}, 124),
        ({"state": "CANCELLED", "reason": {"fault": "operator", "exit_code": 0}}, 130),
        ({"state": "FAILED", "reason": {"fault": "platform", "exit_code": None}}, 125),
        ({"state": "FAILED", "reason": {"fault": "user", "word": "image_not_found", "exit_code": None}}, 125),
        ({"state": "OUT_OF_MEMORY", "reason": {"fault": "user", "exit_code": None, "signal": 9}}, 137),
        ({"state": "SKIPPED", "reason": {"fault": "user"}}, 125),
    ],
)
def test_run_ends_with_the_tasks_code(task, want):
    assert common.task_exit_status(task) == want


def test_a_job_of_several_tasks_ends_with_0_or_1():
    tasks = [{"state": "SUCCEEDED"}, {"state": "FAILED"}]
    assert common.job_exit_status({"state": "FAILED", "tasks": tasks}) == 1
    assert common.job_exit_status({"state": "SUCCEEDED", "tasks": tasks}) == 0


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (errors.Unavailable(), 3),
        (errors.DeadlineExceeded(), 3),
        (errors.NotFound(), 4),
        (errors.JobFileInvalid(), 4),
        (errors.NotSignedIn(), 4),
        (errors.ConfigInvalid(), 2),
    ],
)
def test_exit_status_of_errors(error, want):
    assert exit_status(error) == want


@pytest.mark.parametrize("text", ["", "/a", "a/", "a/b/c/d", "a/b/0", "a/b/x", "a//1"])
def test_references_that_are_none(text):
    with pytest.raises(click.BadParameter):
        common.Reference.parse(text)


def test_references():
    assert common.Reference.parse("j1") == common.Reference("j1", "", "latest")
    assert common.Reference.parse("j1/t/2") == common.Reference("j1", "t", "2")


def test_help_lists_every_command_without_importing_it():
    code = (
        "import sys; from headway.cli.main import cli; cli(['--help'], standalone_mode=False);"
        "heavy = {'grpc', 'fastapi', 'sqlalchemy', 'httpx', 'rich', 'pydantic'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in _COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_has_help(name):
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_a_mistyped_command_is_told_the_near_one():
    result = CliRunner().invoke(cli, ["submitt"])
    assert result.exit_code == 2
    assert "Did you mean `headway submit`?" in result.output


def test_run_makes_a_job_of_one_task():
    options = {
        "image": "i", "gpus": 1, "gpu_model": ("A100",), "cpus": "0.5", "memory": "4GiB", "timeout": "5m",
        "grace": None,
        "retries": 2, "env": ("A=b=c",), "workdir": None, "name": None, "priority": "normal",
        "dataset": ("mnist@2",),
    }  # fmt: skip
    job = _one_task_job(("python3", "-c", "print('x\n')"), options)
    task = job["tasks"][0]
    assert task["command"] == ["python3", "-c", "print('x\n')"]
    assert task["env"] == {"A": "b=c"}
    assert task["datasets"] == ["mnist@2"]
    assert task["resources"] == {"memory": "4GiB", "gpus": 1, "cpus": 0.5, "gpu_model": ["A100"]}
    assert job["name"] == "python3 -c print('x ')"


def test_run_takes_ulimits_as_docker_does():
    options = {"ulimit": ("nofile=1024:65536", "memlock=unlimited"), "name": None, "priority": "normal", "gpus": 0}
    (task,) = _one_task_job(("true",), {"image": "i", "timeout": "5m", "retries": 0, **options})["tasks"]
    assert task["ulimits"] == {"nofile": {"soft": 1024, "hard": 65536}, "memlock": "unlimited"}
    options = {**options, "image": "i", "timeout": "5m", "retries": 0, "ulimit": ("nofile=5",)}
    (task,) = _one_task_job(("true",), options)["tasks"]
    assert task["ulimits"] == {"nofile": 5}
    refused = CliRunner().invoke(cli, ["run", "--ulimit", "nofile", "true"])
    assert refused.exit_code == 2
    assert "NAME=SOFT[:HARD]" in refused.output


class AnEndlessLog:
    """A client whose task writes for ever to stdout and nothing to stderr."""

    def patiently(self, call):
        return call()

    def task(self, _job, _name):
        return {"attempt": 1, "state": "RUNNING"}

    def follow_log(self, _job, _task, *, attempt, stream):
        while True:
            if stream == "stdout":
                yield b"tick\n"
            time.sleep(0.01)


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_following_ends_when_nobody_reads_any_more(monkeypatch, names):
    """Used to: `logs -f ID | head` printed a traceback and waited for the end of the task."""

    def gone(_target, _data):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(log_output, "_write", gone)
    with pytest.raises(BrokenPipeError):
        logs.follow_tasks(AnEndlessLog(), "j1", names, ["stderr", "stdout"])


def test_a_job_that_was_cancelled_as_a_whole_names_no_task(monkeypatch):
    """Used to: `None: It was cancelled, by bob.`"""
    job = {
        "id": "j1",
        "name": "n",
        "state": "CANCELLED",
        "held": False,
        "owner": "bob",
        "submitted_at": 1.0,
        "ended_at": 2.0,
        "reason": {"sentence": "It was cancelled, by bob."},
        "reason_task": None,
        "missing": [],
        "tasks": [],
    }
    monkeypatch.setattr(Client, "job", lambda _self, _id: job)
    shown = CliRunner().invoke(cli, ["show", "j1"])
    assert "\nIt was cancelled, by bob.\n" in shown.output


def test_attempts_beyond_the_retries_are_counted_without_a_whole():
    assert jobs._tries(1, 1) == "1 of 1"
    assert jobs._tries(3, 1) == "3"


@pytest.mark.parametrize("group", ["nodes", "users"])
def test_a_bare_group_lists_as_json_too(monkeypatch, group):
    monkeypatch.setattr(Client, group, lambda _self: [])
    assert CliRunner().invoke(cli, [group, "-o", "json"]).output == "[]\n"
    refused = CliRunner().invoke(cli, [group, "-o", "json", "ls"])
    assert refused.exit_code == 2
    assert "behind ls" in refused.output


def test_a_hint_follows_a_sentence_or_joins_a_clause(capsys):
    report(
        errors.InvalidInput(
            "no",
            problems=[
                errors.Problem("", "timeout is more than 365 days", suggestion="365d"),
                errors.Problem("", "It is not there.", suggestion="that"),
            ],
        )
    )
    told = capsys.readouterr().err
    assert "365 days; did you mean '365d'?" in told
    assert "It is not there. Did you mean 'that'?" in told


def test_accounts_are_listed_with_their_space_and_changes_told_in_words(monkeypatch):
    """Used to: no quota in the list, and `ann: quota_bytes=20971520`."""
    ann = {
        "name": "ann", "admin": False, "enabled": True, "uid": 20000, "signed_in_at": None, "quota_bytes": 20 << 20,
        "may_use_high_priority": True, "space_used_bytes": 3 << 20, "space_limit_bytes": 20 << 20,
    }  # fmt: skip

    def handler(request):
        return httpx.Response(200, json={"users": [ann]} if request.method == "GET" else ann)

    made = lambda: Client(Profile("http://headway.test"), transport=httpx.MockTransport(handler))  # noqa: E731
    monkeypatch.setattr(cluster, "client", made)
    listed = CliRunner().invoke(cli, ["users", "ls"], catch_exceptions=False).output
    assert re.search(r"SPACE USED +OF .*\n.*3\.0 MiB +20\.0 MiB", listed)
    words = ["users", "set", "ann", "--quota", "20MiB", "--high-priority"]
    told = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert told == "ann: may use high priority, the personal space may hold 20.0 MiB\n"


def test_a_lone_problem_is_told_once(capsys):
    """Used to: the same sentence twice, in the summary and below it."""
    problem = errors.Problem("/tasks/0/image", "There is no image `x`", line=3, column=7, suggestion="xy")
    report(
        errors.InvalidInput("The job file has problems: There is no image `x` (line 3, column 7)", problems=[problem])
    )
    told = capsys.readouterr().err
    assert told == (
        "headway: The job file has problems: There is no image `x` (line 3, column 7); did you mean 'xy'?\n"
    )
    report(errors.InvalidInput("The job file has problems: There is no image `x`", problems=[problem]))
    assert "  line 3, column 7: There is no image `x`" in capsys.readouterr().err


def test_run_speaks_of_no_job_file():
    """Used to: "The job file has problems: … (line 1, column 101)" where the user had written none."""
    told = [{"pointer": "/tasks/0/image", "message": word, "line": 1, "column": 9} for word in ("This.", "That.")]

    def refused(*problems):
        body = {"type": "urn:headway:job-file-invalid", "detail": "The job file has problems", "errors": problems}
        answer = httpx.Response(422, json=body, headers={"content-type": "application/problem+json"})
        http = Client(Profile("http://headway.test", ""), transport=httpx.MockTransport(lambda request: answer))
        with pytest.raises(Refused) as caught:
            _submit_without_a_file(http, {}, "")
        return caught.value

    assert (refused(told[0]).message, refused(told[0]).problems[0].line) == ("This.", None)
    both = refused(*told)
    assert both.message == "2 things are wrong:"
    assert [(one.message, one.line, one.pointer) for one in both.problems] == [("This.", None, ""), ("That.", None, "")]


def test_a_command_that_no_machine_can_run_is_told_so_once(capsys):
    """Used to: the sentence came a second time, with a line and a column of a file that nobody wrote."""
    told = "Task 'main' could never run here: No machine is big enough."
    body = {
        "type": "urn:headway:problem:unsatisfiable",
        "detail": told,
        "errors": [{"pointer": "/tasks/0", "message": told, "line": 1, "column": 131}],
    }
    answer = httpx.Response(422, json=body, headers={"content-type": "application/problem+json"})
    http = Client(Profile("http://headway.test", ""), transport=httpx.MockTransport(lambda request: answer))
    with pytest.raises(Refused) as caught:
        _submit_without_a_file(http, {}, "")
    report(caught.value)
    assert capsys.readouterr().err == f"headway: {told}\n"


def test_a_reference_that_names_too_much_is_told_all_forms():
    with pytest.raises(click.BadParameter, match="ID or ID/TASK or ID/TASK/ATTEMPT is wanted"):
        common.ReferenceType(3).convert("a/b/c/d", None, None)


def test_a_fetched_file_appears_whole_and_leaves_its_neighbours(tmp_path):
    """Used to: `files get a` overwrote and deleted a file of one's own named `a.part`."""
    place, neighbour = tmp_path / "a", tmp_path / "a.part"
    neighbour.write_text("mine")
    with common.whole_file(place) as file:
        file.write(b"new")
        assert not place.exists()

    def break_off():
        with common.whole_file(place) as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        break_off()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "new", "a.part": "mine"}
    mask = os.umask(0)
    os.umask(mask)
    assert place.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_folder_that_is_not_there_is_one_sentence(monkeypatch, capsys, tmp_path):
    """Used to: a traceback."""
    monkeypatch.setattr(sys, "argv", ["headway", "files", "get", "a", str(tmp_path / "no" / "a")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told == f"headway: {tmp_path / 'no' / 'a'}: No such file or directory\n"


def test_a_fetched_file_goes_where_a_link_leads(tmp_path):
    """Used to: the link was replaced, and what it led to stayed as it was."""
    (tmp_path / "disk").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
        (tmp_path / "disk" / "old").write_text("old")
        with common.whole_file(tmp_path / name) as file:
            file.write(b"whole")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "disk" / name).read_text() == "whole"
    assert sorted(p.name for p in (tmp_path / "disk").iterdir()) == ["new", "old"]


def test_devices_and_pipes_are_written_into(tmp_path):
    """Used to: `--file /dev/null` as root made a regular file of it."""
    pipe, link = tmp_path / "pipe", tmp_path / "null"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for place in (pipe, link):
            with common.whole_file(place) as file:
                file.write(b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert link.is_char_device()


def test_a_task_ran_as_long_as_its_process():
    """Used to: a task with a timeout of 8 s whose end was told late `ran 42.5s`."""
    task = {"attempt": 1, "started_at": 10.0, "ended_at": 52.5, "attempts": []}
    assert jobs._task_ran(task) == 42.5
    task["attempts"] = [{"number": 1, "phases": {"running_s": 8.0}}]
    assert jobs._task_ran(task) == 8.0
    assert jobs._task_ran({**task, "attempts": [{"number": 1, "phases": {}}]}) == 42.5


def test_who_is_not_signed_in_is_told_the_command(capsys):
    """Used to: the server's sentence alone, about cookies and headers."""
    report(Refused("Sign in first.", kind=errors.NotSignedIn, status=401, request_id="r", problems=[]))
    assert "`headway login URL`" in capsys.readouterr().err


def test_what_names_meant_at_submit_is_shown_once():
    task = {"image": "ann/torch:2", "image_digest": "sha256:1", "datasets": ["mnist@2"], "code": "sha256:2"}
    plain = {"image": "scripted", "image_digest": None, "datasets": [], "code": None}
    assert jobs._pinned([plain]) == []
    assert jobs._pinned([task, plain, task]) == [
        "", "image ann/torch:2 is sha256:1", "dataset mnist@2", "code sha256:2"
    ]  # fmt: skip
