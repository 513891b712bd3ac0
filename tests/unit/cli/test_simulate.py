"""`headway simulate` as it is typed: forms of output, files, and what is refused with which exit status."""

import json
import os
import pty
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headway.cli.common import content_of
from headway.cli.main import cli, report
from headway.errors import HeadwayError
from task_manager.order import policy_registry
from task_manager.order.policy import Policy
from task_manager.simulate.trace import read_trace

HEADER = "submit_s,runtime_s,timeout_s,gpus\n"


def headway(*words, stdin=b""):
    """Exit status, standard output, standard error."""
    result = CliRunner().invoke(cli, ["simulate", *map(str, words)], input=stdin)
    if isinstance(result.exception, HeadwayError):
        return report(result.exception), result.stdout, result.exception.message
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def trace(repository: Path) -> Path:
    return repository / "tests" / "fixtures" / "table2_like.csv"


def test_json_has_an_object_for_each_policy_with_units_in_its_keys(trace):
    status, out, err = headway("--trace", trace, "--policy", "fifo", "--policy", "sjf", "--nodes", "1x2", "-o", "json")
    assert (status, err) == (0, "")
    fifo, sjf = json.loads(out)
    assert (fifo["policy"], sjf["policy"]) == ("fifo", "sjf")
    assert fifo["tasks"] == fifo["jobs"] == 20
    assert fifo["mean_wait_s"] == pytest.approx(562.1, abs=0.05)
    assert fifo["mean_finished_s"] == pytest.approx(769.7, abs=0.05)
    assert sjf["mean_wait_s"] == pytest.approx(253.2, abs=0.05)
    assert sjf["mean_finished_s"] == pytest.approx(460.9, abs=0.05)
    assert fifo["max_wait_s"] >= fifo["p95_wait_s"] >= fifo["median_wait_s"] > 0
    assert 0.9 < fifo["utilisation"] <= 1.0
    assert set(fifo) >= {
        "discipline", "median_finished_s", "p95_finished_s", "max_finished_s", "mean_bounded_slowdown",
        "longest_decile_max_wait_s", "makespan_s", "timed_out", "promised", "promises_missed",
    }  # fmt: skip


def test_the_table_has_a_column_for_each_policy(trace):
    status, out, _ = headway("--trace", trace, "--policy", "fifo", "sjf", "aging_sjf", "--nodes", "1x2")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "20 tasks. Waits and all other times are in seconds."
    assert lines[1].split() == ["fifo", "sjf", "aging_sjf"]
    assert lines[2].split() == ["mean", "wait", "562.1", "253.2", "286.4"]
    assert len({len(line) for line in lines[1:]}) == 1
    assert lines[-1].endswith("%")


def test_starts_and_plots_are_written_where_they_are_wanted(trace, tmp_path):
    starts, plots = tmp_path / "starts.csv", tmp_path / "plots"
    status, _, _ = headway(
        "--trace", trace, "--policy", "fifo,aging_sjf:beta=2", "--nodes", "1x2", "--starts", starts, "--plots", plots
    )
    assert status == 0
    lines = starts.read_text().splitlines()
    assert lines[0] == "id,fifo,aging_sjf:beta=2"
    assert lines[1] == "0,0.000000,0.000000"
    assert len(lines) == 21
    drawn = sorted(plots.iterdir())
    assert [path.name for path in drawn] == ["gpus.svg", "means.svg", "queue.svg", "waits.svg"]
    for path in drawn:
        assert ElementTree.fromstring(path.read_text()).tag == "{http://www.w3.org/2000/svg}svg"
        assert "aging_sjf:beta=2" in path.read_text()


def test_a_dash_is_standard_input_and_output(trace, tmp_path, monkeypatch):
    # `--starts -` made a file of that name, and `--trace -` looked for one.
    monkeypatch.chdir(tmp_path)
    words = ["--policy", "fifo", "sjf", "--nodes", "1x2"]
    status, out, err = headway("--trace", "-", *words, "--starts", "-", stdin=trace.read_bytes())
    assert status == 0
    assert headway("--trace", trace, *words, "--starts", "s.csv")[0] == 0
    assert out == Path("s.csv").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]
    assert err == headway("--trace", trace, *words)[1]  # the table, where the starts don't go


def test_what_comes_by_standard_input_is_named_so(tmp_path):
    status, out, message = headway("--trace", "-", "--nodes", "1x2", stdin=HEADER.encode() + b"0,1,,1\n7,soon,,1\n")
    assert (status, out) == (4, "")
    assert "standard input, row 2 (line 3), column runtime_s: 'soon' is not a number." in message
    assert "standard input is empty" in headway("--trace", "-", "--nodes", "1x2")[2]
    flow = b'{"tasks": [{"name": "a", "runtime_s": 2}]}'
    for dag in ("-", "-@60"):
        status, out, _ = headway("--dag", dag, "--nodes", "1x1", "-o", "json", stdin=flow)
        assert (status, json.loads(out)[0]["makespan_s"]) == (0, 2.0)


def test_a_standard_input_that_is_closed_is_one_sentence(monkeypatch):
    """Used to: a traceback."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(HeadwayError, match="standard input is closed, so there is no trace to read"):
        read_trace(Path("-"))
    with pytest.raises(click.ClickException, match="standard input is closed"):
        content_of("-")


def test_more_than_a_trace_may_have_is_refused_wherever_it_comes_from(trace, monkeypatch):
    monkeypatch.setattr("task_manager.simulate.trace.MAX_FILE_BYTES", 100)
    for words, stdin in (([trace], b""), (["-"], trace.read_bytes())):
        status, _, message = headway("--trace", *words, "--nodes", "1x2", stdin=stdin)
        assert (status, "has more than 100 bytes" in message) == (4, True), message


def test_a_workflow_is_known_by_its_name_and_may_come_later(tmp_path):
    flow = tmp_path / "flow.json"
    flow.write_text('{"tasks": [{"name": "a", "runtime_s": 2}, {"name": "b", "runtime_s": 3, "depends_on": ["a"]}]}')
    for words in (["--trace", flow], ["--dag", flow], ["--dag", f"{flow}@60"]):
        status, out, _ = headway(*words, "--nodes", "1x1", "-o", "json")
        (found,) = json.loads(out)
        assert (status, found["tasks"], found["jobs"]) == (0, 2, 1)
        assert (found["policy"], found["makespan_s"], found["mean_job_finished_s"]) == ("aging_sjf", 5.0, 5.0)


def test_a_workflow_that_is_too_large_names_its_field(tmp_path):
    flow = tmp_path / "flow.json"
    flow.write_text('{"tasks": [{"name": "a", "runtime_s": 2, "gpus": 9}]}')
    status, out, message = headway("--dag", flow, "--nodes", "1x4")
    assert (status, out) == (4, "")
    assert "flow.json, task 1 ('a'), field gpus: 9 GPUs wanted" in message


def test_notes_go_to_standard_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("submit_s,runtime_s,gpus,timeout\n5,1,1,9\n0,1,1,9\n")
    status, out, err = headway("--trace", path, "--policy", "fair", "--nodes", "1x1", "-o", "json")
    assert status == 0
    assert json.loads(out)
    assert err.splitlines() == [
        "headway: t.csv: columns that are not read: timeout (is it timeout_s?).",
        "headway: t.csv was not in the order of submit_s; its rows were sorted.",
        "headway: The trace names no users: to `fair` all tasks are of one.",
    ]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["--nodes", "1x2"], "name what to run: --trace FILE.csv or --dag FILE.json"),
        (["--trace", "TRACE"], "Missing option '--nodes'"),
        (["--trace", "TRACE", "--nodes", "two"], "'two' is not a group of nodes"),
        (["--trace", "TRACE", "--nodes", "1x2", "--policy", "lifo"], "There is no scheduling policy 'lifo'"),
        (["--trace", "TRACE", "--nodes", "1x2", "--policy", "aging_sij"], "Did you mean aging_sjf?"),
        (["--trace", "TRACE", "--nodes", "1x2", "--policy", "fifo:beta=1"], "no parameter 'beta'"),
        (["--trace", "TRACE", "--nodes", "1x2", "--policy", "aging_sjf:beta=nan"], "beta=nan"),
        (["--trace", "TRACE", "--nodes", "1x2", "--discipline", "loose"], "'loose' is not"),
        (["--trace", "TRACE", "--nodes", "1x2", "--timeout-factor", "0"], "'0' is not above 0"),
        (["--trace", "TRACE", "--nodes", "1x2", "--timeout-factor", "nan"], "'nan' is not above 0"),
        (["--trace", "TRACE", "--nodes", "1x2", "--timeout-factor", "much"], "'much' is not a number"),
        (["--trace", "TRACE", "--nodes", "1x2", "fifo"], "what is 'fifo'? Policies are named with --policy"),
        (["--trace", "/nowhere/t.csv", "--nodes", "1x2"], "does not exist"),
        (["/nowhere/t.csv", "--nodes", "1x2", "--policy", "fifo"], "there is no file '/nowhere/t.csv'"),
        (["--dag", "/nowhere/t.json", "--nodes", "1x2"], "there is no file '/nowhere/t.json'"),
        (["--dag", "TRACE@soon", "--nodes", "1x2"], "comes the second of submission, not 'soon'"),
        (
            ["--trace", "TRACE", "--nodes", "1x2", "--starts", "/nowhere/s.csv"],
            "'--starts': there is no folder '/nowhere'",
        ),
        (["--trace", "TRACE", "--nodes", "1x2", "--starts", "-", "-o", "json"], "both go to standard output"),
        (["--trace", "TRACE", "--nodes", "1x2", "--plots", "-"], "'--plots': plots are several files: name a folder"),
        (["--trace", "-", "--dag", "-", "--nodes", "1x2"], "standard input can be read once"),
        (["--trace", "TRACE", "--nodes", "1x2", "--starts", "TRACE"], "is what is to be run; name another file"),
        (
            ["--trace", "TRACE", "--nodes", "1x2", "--plots", "/nowhere/far/p"],
            "'--plots': there is no folder '/nowhere/far'",
        ),
    ],
)
def test_a_wrong_word_is_a_matter_of_usage(trace, words, want):
    content = trace.read_bytes()
    status, out, err = headway(*(word.replace("TRACE", str(trace)) for word in words))
    assert (status, out) == (2, "")
    assert trace.read_bytes() == content
    assert want in " ".join(err.split())


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (b"", "t.csv is empty"),
        (HEADER.encode() + b"0,1,,1\n7,soon,,1\n", "t.csv, row 2 (line 3), column runtime_s: 'soon' is not a number."),
        (HEADER.encode() + b"0,-1,,1\n", "row 1 (line 2), column runtime_s: '-1' is negative."),
        (
            HEADER.encode() + b"0,1,,16\n",
            "row 1 (line 2), column gpus: 16 GPUs wanted on one node, the largest has 2",
        ),
        (b"submit_s,gpus\n0,1\n", "the column runtime_s is missing"),
        (b"\x89PNG\r\n\x1a\n\0", "is no trace (a CSV file)"),
    ],
)
def test_a_bad_trace_is_refused_and_nothing_is_written(tmp_path, content, want):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    status, out, message = headway("--trace", path, "--nodes", "1x2", "--starts", tmp_path / "s.csv")
    assert (status, out) == (4, "")
    assert want in message
    assert not (tmp_path / "s.csv").exists()


def test_a_policy_that_fails_is_told_loudly_and_the_run_goes_on(trace, monkeypatch):
    class Moody(Policy):
        name = "moody"

        def key(self, task, now, view):
            raise RuntimeError("not today")

    monkeypatch.setitem(policy_registry.BUILT_IN, "moody", Moody)
    words = ["--trace", trace, "--policy", "moody", "aging_sjf", "--nodes", "1x2", "-o", "json"]
    status, out, err = headway(*words)
    moody, aging = json.loads(out)
    assert status == 0
    assert moody["mean_wait_s"] == aging["mean_wait_s"]
    assert "not today" in moody["policy_failed"]
    assert aging["policy_failed"] == ""
    assert "not today: aging_sjf stood in, so this is no result of moody." in err
    # The task was called 0000000000/0, which stands in no file.
    assert "moody failed for table2_like.csv, row 1 (line 2): not today" in moody["policy_failed"]


def test_help_names_what_a_reader_needs():
    status, out, _ = headway("--help")
    assert status == 0
    for word in (
        "--trace",
        "--policy",
        "NODESxGPUS[xMODEL]",
        "--discipline",
        "--timeout-factor",
        "--starts",
        "--plots",
    ):
        assert word in out


def test_a_terminal_sees_a_progress_bar(trace):
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "headway", "simulate", "--trace", str(trace), "--nodes", "1x2", "-o", "json"]
    with os.fdopen(leader, "rb", buffering=0) as screen:
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=follower, check=True, timeout=60)
        finally:
            os.close(follower)
        shown = screen.read(65536)
    assert json.loads(done.stdout)[0]["tasks"] == 20
    assert b"simulated tasks" in shown


SWF = "".join(
    f"{i} {10 * i} -1 100 {n} -1 -1 {n} 200 -1 1 {i % 2} 1 1 1 1 -1 -1\n" for i, n in enumerate((1, 2, 9, 2), 1)
)


def test_a_log_of_another_program_is_a_plain_argument_and_says_how_it_was_read(tmp_path):
    log = tmp_path / "log.swf"
    log.write_text("; UnixStartTime: 0\n" + SWF)
    status, out, message = headway(log, "--nodes", "1x4", "-o", "json")
    assert (status, out) == (4, "")
    assert "log.swf, row 3 (line 4), column 8 (processors asked for): 9 GPUs wanted" in message
    assert "--skip-too-large leaves such tasks out" in message
    status, out, err = headway(log, "--nodes", "1x4", "--skip-too-large", "-o", "json")
    assert (status, json.loads(out)[0]["tasks"]) == (0, 3)
    assert err.splitlines() == [
        "headway: log.swf is read as SWF, by its lines of 18 numbers.",
        "headway: 1 task of 4 is left out: no node of 1x4 could ever run it (first: log.swf, row 3 (line 4)).",
        "headway: A job of SWF names processors: they are taken as GPUs of one node.",
    ]
    # Machines without GPUs run it on their CPUs.
    status, out, err = headway(log, "--nodes", "1x0:cpus=16", "--format", "swf", "-o", "json")
    assert (status, json.loads(out)[0]["tasks"]) == (0, 4)
    assert err.splitlines() == ["headway: A job of SWF names processors: they are taken as CPUs of one node."]
    assert "none" not in headway(log, "--nodes", "1x0", "--skip-too-large")[2].lower()
    assert (
        "All 4 tasks are too large for 1x0:cpus=0.5" in headway(log, "--nodes", "1x0:cpus=0.5", "--skip-too-large")[2]
    )


def test_what_needs_a_task_that_is_left_out_is_left_out_too(tmp_path):
    flow = tmp_path / "flow.json"
    flow.write_text(
        '{"tasks": [{"name": "a", "runtime_s": 2}, {"name": "b", "runtime_s": 2, "gpus": 9, "depends_on": ["a"]}, '
        '{"name": "c", "runtime_s": 2, "depends_on": ["b"]}, {"name": "d", "runtime_s": 2, "depends_on": ["a"]}]}'
    )
    starts = tmp_path / "starts.csv"
    status, _, err = headway(flow, "--nodes", "1x4", "--skip-too-large", "--starts", starts)
    assert (status, starts.read_text()) == (0, "id,aging_sjf\nflow/a,0.000000\nflow/d,2.000000\n")
    assert "2 tasks of 4 are left out" in err


def test_tasks_without_a_user_are_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("submit_s,runtime_s,gpus,user\n0,1,1,ann\n1,1,1,\n2,1,1,\n")
    _, _, err = headway(path, "--policy", "fair", "--nodes", "1x1")
    assert err.splitlines() == ["headway: 2 tasks of 3 name no user: to `fair` they are of one without a name."]
    assert headway(path, "--policy", "fifo", "--nodes", "1x1")[2] == ""


def test_as_live_takes_what_the_configuration_books(tmp_path, monkeypatch):
    path, toml = tmp_path / "t.csv", tmp_path / "headway.toml"
    path.write_text(HEADER + "0,100,100,1\n1,5,5,2\n2,60,60,1\n")
    toml.write_text("[task_manager]\nbooked_start_s = 5\nbooked_stop_s = 1\n")
    monkeypatch.setenv("HEADWAY_CONFIG", str(toml))
    status, _, err = headway(path, "--nodes", "1x2", "--as-live")
    assert (status, err) == (
        0, "headway: as live, each task books 5 s for its start and 1 s for its stop, on top of its timeout.\n"
    )  # fmt: skip
    monkeypatch.setenv("HEADWAY_CONFIG", str(tmp_path / "missing.toml"))
    assert "60 s for its start and 30 s for its stop" in headway(path, "--nodes", "1x2", "--as-live")[2]
    toml.write_text("[task_manager]\nbooked_start_s = -5\n")
    monkeypatch.setenv("HEADWAY_CONFIG", str(toml))
    status, _, message = headway(path, "--nodes", "1x2", "--as-live")
    assert (status, "booked_start_s" in message) == (2, True)


def test_tune_compares_the_usual_policies_with_the_present_one(trace):
    status, out, _ = headway(trace, "--nodes", "1x2", "--tune", "--policy", "fifo")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].startswith("20 tasks. The mean timeout is 207.7 s, so `log_aging:means=12` is about c=2492.")
    assert lines[2].split()[:2] == ["fifo", "562.1"]
    assert lines[2].endswith("present")
    assert any(line.startswith("aging_sjf:beta=2 ") for line in lines)
    assert lines[-2].startswith("No")
    assert "than fifo in both the mean and the longest wait" in lines[-2]
    status, out, _ = headway(trace, "--nodes", "1x2", "--tune", "-o", "json")
    found = json.loads(out)
    assert (found[0]["policy"], found[0]["present"], found[0]["no_worse_than_present"]) == ("aging_sjf", True, True)
    assert {"mean_wait_s", "p95_wait_s", "max_wait_s", "mean_bounded_slowdown", "promised_share"} < set(found[0])
    both = ("--discipline", "easy", "--discipline", "greedy")
    assert headway(trace, "--nodes", "1x2", "--tune", *both)[0] == 2
