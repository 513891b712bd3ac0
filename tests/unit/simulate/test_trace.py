"""Traces and workflows as files: what is read, and what is refused with its place."""

import json

import pytest

from task_manager.simulate.dag import parse_dag
from task_manager.simulate.errors import TraceInvalid
from task_manager.simulate.trace import parse_trace

HEADER = "submit_s,runtime_s,timeout_s,gpus,gpu_type,cpus,mem_mib,user\n"


def read(text, name="t.csv"):
    return parse_trace(text.encode() if isinstance(text, str) else text, name)


def test_a_row_is_read_with_its_units():
    (record,) = read(HEADER + "10,20.5,60,2,T4|A10|T4,3.152,5600,ann\n").records
    assert (record.submit_s, record.runtime_s, record.timeout_s, record.gpus) == (10.0, 20.5, 60.0, 2)
    assert record.gpu_types == ("A10", "T4")
    assert (record.cpu_centi, record.memory_bytes, record.user) == (316, 5600 << 20, "ann")
    assert (record.label, record.row) == ("0", 0)


def test_hundredths_of_a_cpu_are_not_rounded_up_by_what_floats_make_of_them():
    (record,) = read(HEADER + "0,1,,1,,0.29,0.5,\n").records
    assert (record.cpu_centi, record.memory_bytes) == (29, 1 << 19)


def test_blank_cells_and_absent_columns_are_left_open():
    (record,) = read("submit_s,runtime_s,gpus\n0,5,1\n").records
    assert (record.timeout_s, record.gpu_types, record.cpu_centi, record.user) == (None, (), 0, "")
    assert read(HEADER + "0,5,,1,,,,\n").records[0].timeout_s is None


@pytest.mark.parametrize(
    "content", ["\ufeffsubmit_s,runtime_s,gpus\r\n0,5,1\r\n\r\n7,2,1\r\n", " gpus , submit_s,runtime_s\n1,0,5\n1,7,2"]
)
def test_marks_line_ends_spaces_and_the_order_of_columns_do_not_matter(content):
    assert [(r.submit_s, r.runtime_s, r.gpus) for r in read(content).records] == [(0, 5, 1), (7, 2, 1)]


def test_rows_are_sorted_by_submission_and_rows_of_one_instant_stay_in_order():
    found = read("submit_s,runtime_s,gpus\n5,1,1\n0,2,1\n5,3,1\n0,4,1\n")
    assert [r.label for r in found.records] == ["1", "3", "0", "2"]
    assert "sorted" in found.notes[0]


def test_a_column_that_is_not_read_is_told_with_what_it_may_mean():
    assert (
        "timeout (is it timeout_s?), colour" in read("submit_s,runtime_s,gpus,timeout,colour\n0,1,1,9,red\n").notes[0]
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "t.csv is empty"),
        ("\n\n", "t.csv is empty"),
        (HEADER, "no tasks"),
        ("submit_s,gpus\n0,1\n", "line 1: the column runtime_s is missing."),
        ("submit_s,runtime,gpus\n0,1,1\n", "the column runtime_s is missing (there is 'runtime')"),
        ("submit_s;runtime_s;gpus\n0;1;1\n", "cells are parted by commas, not by ';'"),
        ("hello\nworld\n", "columns are missing: submit_s, runtime_s, gpus; the first row names the columns"),
        ("gpus,submit_s,runtime_s,gpus\n1,0,1,1\n", "the column gpus is there twice"),
        (HEADER + "0,1,,1,,,,\n1,soon,,1,,,,\n", "t.csv, row 2 (line 3), column runtime_s: 'soon' is not a number."),
        (HEADER + "0,1,,one,,,,\n", "row 1 (line 2), column gpus: 'one' is not a number."),
        (HEADER + "-3,1,,1,,,,\n", "row 1 (line 2), column submit_s: '-3' is negative."),
        (HEADER + "0,-1,,1,,,,\n", "column runtime_s: '-1' is negative."),
        (HEADER + "0,1,-1,1,,,,\n", "column timeout_s: '-1' is negative."),
        (HEADER + "0,1,0,1,,,,\n", "column timeout_s: '0' is no limit"),
        (HEADER + "1e9,5,1e-9,1,,,,\n", "column timeout_s: '1e-9' is no limit"),
        (HEADER + "0,1,,-2,,,,\n", "column gpus: '-2' is negative."),
        (HEADER + "0,1,,1.5,,,,\n", "column gpus: '1.5' is not a whole number."),
        (HEADER + "0,1,,,,,,\n", "column gpus: the cell is blank."),
        (HEADER + "nan,1,,1,,,,\n", "column submit_s: 'nan' is not a finite number."),
        (HEADER + "0,inf,,1,,,,\n", "column runtime_s: 'inf' is not a finite number."),
        (HEADER + "0,1e400,,1,,,,\n", "column runtime_s: '1e400' is not between 0 and 1e+09."),
        (HEADER + "0,1_000,,1,,,,\n", "'1_000' is not a number."),
        (HEADER + '0,"1,000",,1,,,,\n', "'1,000' is not a number."),
        (HEADER + "0,٣,,1,,,,\n", "'٣' is not a number."),
        (HEADER + "0,1,,1,T4||A10,,,\n", "column gpu_type: 'T4||A10' names an empty type."),
        (HEADER + "0,1,,1,,-1,,\n", "column cpus: '-1' is negative."),
        (HEADER + "0,1,,1,,,much,\n", "column mem_mib: 'much' is not a number."),
        (HEADER + "0,1,,1\n", "row 1 (line 2): 4 cells where the header has 8."),
        (HEADER + "0,1,,1,,,,ann,5\n", "row 1 (line 2): 9 cells where the header has 8."),
        (HEADER + '0,"1"x,,1,,,,\n', "line 2: this is not CSV"),
        (HEADER + "0,\x1b[2J,,1,,,,\n", "'\ufffd[2J' is not a number."),
        (b"PK\x03\x04\xff\xfe\x80", "line 1: this is not text in UTF-8"),
        ("submit_s\0".encode("utf-16-le"), "there is a zero byte"),
        ("id,submit_s,runtime_s,gpus\na,0,1,1\na,1,1,1\n", "row 2 (line 3), column id: 'a' is in row 1 already."),
        ("submit_s,runtime_s,gpus,priority\n0,1,1,high\n", "column priority: 'high' is not a number."),
    ],
)  # fmt: skip
def test_a_bad_trace_is_refused_with_one_sentence_that_says_where(text, want):
    with pytest.raises(TraceInvalid) as caught:
        read(text)
    assert want in caught.value.message
    assert "\n" not in caught.value.message


def dag(tasks, name="wf"):
    return parse_dag(json.dumps({"name": name, "tasks": tasks}).encode(), "wf.json", submit_s=7.0, job=3)


def test_a_workflow_is_one_job_with_needs():
    found = dag(
        [
            {"name": "b", "runtime_s": 2, "depends_on": ["a"], "cpus": 1, "mem_mib": 0.5},
            {"name": "a", "runtime_s": 1.5, "depends_on": []},
        ]
    ).records
    assert [r.label for r in found] == ["b", "a"]
    assert [r.needs for r in found] == [(1,), ()]
    assert [(r.submit_s, r.job, r.gpus, r.timeout_s) for r in found] == [(7.0, 3, None, None)] * 2
    assert (found[0].cpu_centi, found[0].memory_bytes) == (100, 1 << 19)


@pytest.mark.parametrize(
    ("tasks", "want"),
    [
        ([], "needs a list of tasks"),
        ([7], "task 1 is not an object"),
        ([{"runtime_s": 1}], "task 1, field name: each task needs a name"),
        ([{"name": "a"}], "task 1 ('a'), field runtime_s: it is missing"),
        ([{"name": "a", "runtime_s": "1"}], "field runtime_s: '1' is not a number"),
        ([{"name": "a", "runtime_s": True}], "field runtime_s: 'true' is not a number"),
        ([{"name": "a", "runtime_s": -1}], "field runtime_s: -1 is negative"),
        ([{"name": "a", "runtime_s": 1, "cpus": -1}], "field cpus: -1 is negative"),
        # Both used to end in a traceback.
        (
            [{"name": "a", "runtime_s": 10**400}],
            "field runtime_s: 1000000000000000000000000000000000000... is more than",
        ),
        (
            [{"name": "\ud800", "runtime_s": 1}],
            "field name: '\N{REPLACEMENT CHARACTER}' contains half of a surrogate pair",
        ),
        ([{"name": "a", "runtime_s": 1, "gpus": 0.5}], "field gpus: 0.5 is not a whole number"),
        ([{"name": "a", "runtime_s": 1, "depends_on": ["z"]}], "field depends_on: there is no task 'z'"),
        ([{"name": "a", "runtime_s": 1, "depends_on": "z"}], "field depends_on: this is not a list"),
        (
            [{"name": "a", "runtime_s": 1}, {"name": "a", "runtime_s": 1}],
            "task 2 ('a'), field name: task 1 has this name",
        ),
        (
            [
                {"name": "a", "runtime_s": 1, "depends_on": ["c"]},
                {"name": "b", "runtime_s": 1, "depends_on": ["a"]},
                {"name": "c", "runtime_s": 1, "depends_on": ["b"]},
                {"name": "d", "runtime_s": 1, "depends_on": ["c"]},
            ],
            "in a circle: a needs c needs b needs a.",
        ),
    ],
)
def test_a_bad_workflow_is_refused_with_task_and_field(tasks, want):
    with pytest.raises(TraceInvalid) as caught:
        dag(tasks)
    assert want in caught.value.message


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (b"{", "line 1, column 2: this is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[]", "is no workflow"),
        (b'{"tasks": [{"name": "a", "runtime_s": NaN}]}', "NaN is not a finite number"),
        (b'{"tasks": [{"name": "a", "runtime_s": 1e999}]}', "inf is not a finite number"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_is_no_workflow_is_refused(content, want):
    with pytest.raises(TraceInvalid) as caught:
        parse_dag(content, "wf.json")
    assert want in caught.value.message
