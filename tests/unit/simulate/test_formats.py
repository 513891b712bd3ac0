"""Traces as other programs write them: what is recognised, what is read, and what is refused with its place."""

import gzip
import io
import json
import zlib
from pathlib import Path

import pytest

from task_manager.simulate import unpacking
from task_manager.simulate.errors import TraceInvalid
from task_manager.simulate.formats.recognition import recognise
from task_manager.simulate.trace_records import content_of

GIB = 1 << 30


def read(text, name="t.txt", form=""):
    content = text.encode()
    known = recognise(content, name, form)
    return known, known.parse(content, name)


def refused(text, form="", name="t.txt"):
    with pytest.raises(TraceInvalid) as caught:
        read(text, name, form)
    assert "\n" not in caught.value.message
    return caught.value.message


# -- dates and durations --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90", 90.0),
        ("0:01:30", 90.0),
        ("01:30", 90.0),
        ("90:00", 5400.0),
        ("30:00:00", 108_000.0),
        ("1-02:03:04", 93_784.0),
        ("1-02", 93_600.0),
        ("2-00:30", 174_600.0),
        ("00:00:01.500", 1.5),
    ],
)
def test_a_duration_is_seconds_or_as_clocks_show_it(written, seconds):
    _, found = read(f"submit_s,runtime_s,timeout_s,gpus\n0,{written},{written},1\n")
    assert (found.records[0].runtime_s, found.records[0].timeout_s) == (seconds, seconds)


@pytest.mark.parametrize(
    ("written", "epoch"),
    [
        ("2024-03-01T12:00:00", 1_709_294_400.0),
        ("2024-03-01 12:00:00.25", 1_709_294_400.25),
        ("2024-03-01T13:00:00+01:00", 1_709_294_400.0),
        ("2024-03-01T12:00:00Z", 1_709_294_400.0),
        ("1709294400", 1_709_294_400.0),
    ],
)
def test_a_moment_is_an_epoch_or_a_date(written, epoch):
    _, found = read(f"submit_s,runtime_s,gpus\n{written},1,1\n")
    assert found.records[0].submit_s == epoch
    zoneless = "T" in written.replace(" ", "T") and not written.endswith(("Z", "01:00"))
    assert ("t.txt: its dates name no zone and are taken as UTC." in found.notes) == zoneless


HEAD = "submit_s,runtime_s,gpus\n"


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        (
            "5,1,1\n2024-03-01T12:00:00,1,1\n",
            "row 2 (line 3), column submit_s: '2024-03-01T12:00:00' is a date without a zone, but row 1 has a number",
        ),
        (
            "2024-03-01T12:00:00,1,1\n2024-03-01T12:00:00Z,1,1\n",
            "row 2 (line 3), column submit_s: '2024-03-01T12:00:00Z' is a date with a zone, but row 1",
        ),
        ("0,0:10,1\n1,10,1\n", "row 2 (line 3), column runtime_s: '10' is a number of seconds, but row 1 has hours"),
        ("01/03/2024,1,1\n", "'01/03/2024' is not a number, nor a date such as 2024-03-01T12:00:00"),
        ("2024-02-30T12:00:00,1,1\n", "'2024-02-30T12:00:00' is no date that there is"),
        ("1969-12-31T12:00:00,1,1\n", "is before 1970"),
        ("0,1:75:00,1\n", "'1:75:00' is no duration"),
        ("0,1-24:00:00,1\n", "'1-24:00:00' is no duration"),
        ("0,1:2:3:4,1\n", "'1:2:3:4' is not a number"),
    ],
)
def test_mixed_or_wrong_dates_and_durations_are_refused_with_their_place(rows, want):
    assert want in refused(HEAD + rows)


# -- SWF ------------------------------------------------------------------------------------------

SWF = """; Version: 2.2
;   MaxProcs: 240
  1  0  -1  3600  4  -1 -1  8  7200 1024 1  3  1 -1 -1 -1 -1 -1
  2 60   5    10 -1  -1 -1  2    -1   -1 0 -1 -1 -1 -1 -1 -1 -1
  3 70   5    -1 -1  -1 -1  2   100   -1 5  3  1 -1 -1 -1 -1 -1 ; cancelled
  4 80   5    20  1  -1 -1 -1   100   -1 2  3  1 -1 -1 -1 -1 -1
  5 90   5    20  3  -1 -1 -1   100   -1 1  4  1 -1 -1 -1 -1 -1
"""


def test_swf_is_known_by_its_lines_and_minus_one_is_not_known():
    known, found = read(SWF, "log.swf")
    assert (known.name, known.sentence) == ("swf", "log.swf is read as SWF, by its lines of 18 numbers.")
    first, second, last = found.records
    assert (first.label, first.submit_s, first.runtime_s, first.timeout_s, first.user) == ("1", 0, 3600, 7200, "3")
    assert (first.gpus, first.processors, first.memory_bytes) == (None, 8, 8 << 20)
    assert (second.timeout_s, second.user, second.memory_bytes) == (None, "", 0)
    assert (last.label, last.processors) == ("5", 3)  # asked for: not known, so what was held
    assert [note for note in found.notes if "left out" in note] == [
        "log.swf: 1 row is left out: cancelled before they ran.",
        "log.swf: 1 row is left out: parts of jobs that were stopped and went on, and are listed as wholes too.",
    ]


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (
            "1 0 -5 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1",
            "row 1 (line 1), column 3 (wait): -5 is negative (-1",
        ),
        ("1 0 1 -2 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1", "column 4 (run time): -2 is negative"),
        (
            "1 0 1 10 1 -1 -1 1.5 10 -1 1 1 1 1 1 1 -1 -1",
            "8 (processors asked for): '1.5' is not a whole number",
        ),
        ("1 0 1 x 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1", "column 4 (run time): 'x' is not a number"),
        ("1 0 1 10 1", "row 1 (line 1): 5 numbers where SWF has 18"),
        ("; nothing", "has no jobs, only comments"),
        ("1 0 1 -1 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1", "no job that can be run. t.txt: 1 row is left out"),
    ],
)
def test_a_bad_line_of_swf_is_refused_with_row_and_column(line, want):
    assert want in refused(line + "\n", "swf")


# -- sacct ----------------------------------------------------------------------------------------

SACCT = """JobID|User|Submit|Start|End|Elapsed|Timelimit|State|ReqTRES|AllocTRES
101|ann|2024-03-01T12:00:00|2024-03-01T12:05:00|2024-03-01T13:05:00|01:00:00|2-00:00:00|COMPLETED|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|cpu=16,gres/gpu=2,mem=128G,node=1
101.batch||2024-03-01T12:05:00|2024-03-01T12:05:00|2024-03-01T13:05:00|01:00:00||COMPLETED||cpu=8
102|bob|2024-03-01T12:00:30|Unknown|Unknown|00:00:00|UNLIMITED|PENDING|cpu=1|
103|bob|2024-03-01T12:01:00|None|2024-03-01T12:02:00|00:00:00|01:00:00|CANCELLED by 1000|cpu=1|
104_7|bob|2024-03-01T12:01:00|2024-03-01T12:01:00|2024-03-01T12:01:30|00:00:30|Partition_Limit|TIMEOUT||cpu=2,gres/gpu:a100=1,mem=500M
105|cy|2024-03-01T12:01:00|2024-03-01T12:01:00|Unknown|00:00:30|10:00|RUNNING|cpu=2|
104_7|bob|2024-03-01T12:09:00|2024-03-01T12:10:00|2024-03-01T12:10:30|00:00:30|10:00|NODE_FAIL|cpu=2|
"""


def test_sacct_is_read_with_its_limits_resources_and_states():
    known, found = read(SACCT)
    assert (known.name, known.sentence) == (
        "sacct", "t.txt is read as `sacct -P` of Slurm, by its columns JobID, Submit and State."
    )  # fmt: skip
    first, second, third = found.records
    assert (first.label, first.user, first.submit_s) == ("101", "ann", 1_709_294_400.0)
    assert (first.runtime_s, first.timeout_s, first.gpus, first.gpu_types) == (3600.0, 172_800.0, 2, ("a100",))
    assert (first.cpu_centi, first.memory_bytes) == (800, 64 * GIB)
    assert (second.label, second.timeout_s, second.gpus, second.gpu_types) == ("104_7", None, 1, ())
    assert (second.cpu_centi, second.memory_bytes) == (200, 500 << 20)
    assert (third.label, third.timeout_s, third.gpus) == ("104_7#2", 600.0, 0)
    assert [note.split(": ", 1)[1] for note in found.notes if "left out" in note] == [
        "1 row is left out: steps of jobs.",
        "1 row is left out: not started yet.",
        "1 row is left out: never started.",
        "1 row is left out: still running.",
    ]


def test_older_columns_of_sacct_do_as_well():
    text = (
        "JobID|Submit|ElapsedRaw|TimelimitRaw|State|ReqGRES|ReqCPUS|ReqMem|NNodes|\n"
        "7|2024-03-01T12:00:00|90|5|COMPLETED|gpu:v100:2|4|2Gc|1|\n"
        "8|2024-03-01T12:00:00|90|UNLIMITED|FAILED|gpu:1|4|3Gn|2|\n"
    )
    one, two = read(text)[1].records
    assert (one.runtime_s, one.timeout_s, one.gpus, one.gpu_types) == (90.0, 300.0, 2, ("v100",))
    assert (one.cpu_centi, one.memory_bytes, two.memory_bytes) == (400, 8 * GIB, 6 * GIB)
    assert (two.timeout_s, two.gpus) == (None, 1)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("JobID|Submit|State\n", "line 1: there is no column of run times: Elapsed, or Start and End"),
        ("JobID|Submit|State|Elapsed|Submit\n", "line 1: the column Submit is there twice"),
        ("JobID,Submit,State,Elapsed\n", "cells are parted by '|', not by ','"),
        (
            "JobID|Submit|State|Elapsed|AllocTRES\n1|2024-03-01T12:00:00|COMPLETED|1:00|cpu=1,gres/gpu=two\n",
            "row 1 (line 2), column AllocTRES: 'gres/gpu=two' is no number of GPUs such as gres/gpu=2",
        ),
        (
            "JobID|Submit|State|Elapsed|AllocTRES\n1|2024-03-01T12:00:00|COMPLETED|1:00|mem=lots\n",
            "row 1 (line 2), column AllocTRES: 'lots' is no amount of memory such as 64G",
        ),
        (
            "JobID|Submit|State|Start|End\n1|2024-03-01T12:00:00|COMPLETED|2024-03-01T12:00:00|2024-03-01T11:00:00\n",
            "row 1 (line 2), column End: '2024-03-01T11:00:00' is before the start",
        ),
    ],
)
def test_a_bad_row_of_sacct_is_refused_with_row_and_column(text, want):
    assert want in refused(text, "sacct")


# -- published traces -----------------------------------------------------------------------------


def test_helios():
    text = (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "14,uA,vcB,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:30,2020-06-09 18:45:39,249,3\n"
        "15,uA,vcB,1,1,1,CANCELLED,2020-06-09 18:41:28,,2020-06-09 18:41:40,0,12\n"
    )
    known, found = read(text, "cluster_log.csv")
    (record,) = found.records
    assert known.sentence.startswith("cluster_log.csv is read as the job list of Helios, by its columns submit_time")
    assert (record.label, record.user, record.gpus, record.cpu_centi) == ("14", "uA", 4, 1600)
    assert (record.runtime_s, record.timeout_s) == (249.0, None)


def test_philly():
    def attempt(start, end, *gpus):
        return {"start_time": start, "end_time": end, "detail": [{"ip": "m1", "gpus": list(gpus)}]}

    jobs = [
        {
            "jobid": "a", "user": "u", "status": "Pass", "vc": "v", "submitted_time": "2017-10-07 01:11:39",
            "attempts": [
                attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", "gpu0", "gpu1"),
                attempt("2017-10-07 01:14:00", "2017-10-07 01:15:30", "gpu0", "gpu1"),
                attempt("None", None),
            ],
        },
        {"jobid": "b", "user": "u", "submitted_time": "2017-10-07 01:11:39", "attempts": []},
    ]  # fmt: skip
    known, found = read(json.dumps(jobs), "cluster_job_log")
    (record,) = found.records
    assert known.name == "philly"
    assert (record.label, record.gpus, record.runtime_s, record.user) == ("a", 2, 150.0, "u")
    assert "1 row is left out: no attempt with a start and an end." in found.notes[1]
    jobs[0]["attempts"][1]["end_time"] = "2017-10-07 01:13:30"
    assert "job 1, column end_time: '2017-10-07 01:13:30' is before the start" in refused(json.dumps(jobs))
    assert "needs a list of jobs" in refused("{}", "philly")
    assert "is no workflow" in refused('[{"name": "a"}]', name="flow.json")
    assert "job 1 is not an object" in refused("[7]")


def test_the_task_table_of_pai_with_and_without_its_header():
    rows = (
        "4f05,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC\n"
        "4f06,worker,2.0,Terminated,1739170.0,1739200.5,400.0,1,200.0,V100\n"
        "4f07,ps,1.0,Waiting,,,100.0,1,,\n"
        "4f08,ps,1.0,Running,1739162.0,,100.0,1,,\n"
    )
    head = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    for text in (rows, head + rows):
        known, found = read(text, "pai_task_table.csv")
        assert (known.name, len(found.records)) == ("pai", 3)
        first, second, third = found.records
        assert (first.gpus, first.gpu_types, first.cpu_centi, first.runtime_s) == (1, (), 600, 38.0)
        assert first.memory_bytes == round(29.296875 * GIB)
        assert (second.gpus, second.gpu_types, second.label) == (2, ("V100",), "4f06/worker")
        assert third.label == "4f06/worker#2"
        assert any("holds no submissions" in note for note in found.notes)


def test_the_job_list_and_the_pods_of_pai():
    jobs = "job_id,num_cpu,num_gpu,submit_time,num_inst,duration,user,gpu_type\n9,6,0.5,100,1,60,u7,T4\n"
    (job,) = read(jobs)[1].records
    assert (job.label, job.gpus, job.cpu_centi, job.submit_s, job.runtime_s) == ("9", 1, 600, 100.0, 60.0)
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p-0,12000,16384,1,1000,V100M16|V100M32,LS,Running,0,12537496,10\n"
        "p-1,12000,16384,0,0,,LS,Pending,0,12537496,\n"
    )
    (pod,) = read(pods)[1].records
    assert (pod.label, pod.cpu_centi, pod.gpu_types, pod.runtime_s) == ("p-0", 1200, ("V100M16", "V100M32"), 12537486.0)


def test_own_traces_and_workflows_are_still_what_they_were():
    assert read(HEAD + "0,1,1\n")[0] == recognise(HEAD.encode(), "t")
    assert read('{"tasks": [{"name": "a", "runtime_s": 1}]}')[0].name == "workflow"


@pytest.mark.parametrize(
    ("text", "form", "want"),
    [
        (HEAD + "0,1,1\n", "helios", "columns are missing: submit_time, duration, gpu_num"),
        ("gpu_num,duration\n1,2\n", "", "the column submit_time is missing"),
        ("hello\n", "", "columns are missing: submit_s, runtime_s, gpus"),
    ],
)
def test_what_is_no_trace_of_its_format_says_what_is_missing(text, form, want):
    assert want in refused(text, form)


# -- gzip -----------------------------------------------------------------------------------------


def test_gzip_is_unpacked_by_its_first_bytes(tmp_path: Path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(HEAD.encode()) + gzip.compress(b"0,1,1\n") + b"\0" * 100)
    assert content_of(path, "trace", 1000) == ((HEAD + "0,1,1\n").encode(), "t.csv.gz")


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (gzip.compress(HEAD.encode())[:-9], "ends too early"),
        (b"\x1f\x8b\x08\x00" + b"x" * 50, "is a broken gzip file"),
        (gzip.compress(b"0" * 2000), "unpacks to more than 1,000 bytes"),
    ],
    ids=["cut", "broken", "large"],
)
def test_a_gzip_file_that_is_broken_or_too_large_is_refused(content, want):
    with pytest.raises(TraceInvalid, match=want):
        unpacking.unpacked(io.BytesIO(content), "t.gz", "trace", 1000)


def test_a_gzip_bomb_is_refused_long_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(unpacking, "_FREE_BYTES", 1 << 16)
    engine = zlib.compressobj(9, wbits=31)
    bomb = engine.compress(bytes(32 << 20)) + engine.flush()
    made = []

    class Counting:
        def decompressobj(self, wbits):
            inner = zlib.decompressobj(wbits=wbits)

            class Engine:
                def __getattr__(self, name):
                    return getattr(inner, name)

                def decompress(self, data, most):
                    made.append(len(inner_made := inner.decompress(data, most)))
                    return inner_made

            return Engine()

        error = zlib.error

    monkeypatch.setattr(unpacking, "zlib", Counting())
    with pytest.raises(TraceInvalid, match="unpacks to more than 100 times its size, as no trace does"):
        unpacking.unpacked(io.BytesIO(bomb), "t.gz", "trace", 1 << 31)
    assert sum(made) < 100 * len(bomb) + (2 << 20)


# -- real ones ------------------------------------------------------------------------------------


def test_real_traces_are_recognised_where_they_lie(shared_data: Path):
    found = sorted((shared_data / "traces").iterdir())
    assert len(found) >= 3
    for path in found:
        content, name = content_of(path, "trace", 1 << 30)
        known = recognise(content, name)
        assert len(known.parse(content, name).records) > 100
