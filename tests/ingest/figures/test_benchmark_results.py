from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest.document import read_document
from ingest.figures.benchmark_results import NOTE, with_measurements
from ingest.readers import Reading
from kb.errors import RecordError
from kb.records.schema import GuideRecord

ANSWER = '''"""Softmax over rows in one pass."""
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    pass


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
'''
PLAIN = "def twice(x):\n    return 2 * x\n"


def read(folder: Path, name: str, source: str, **beside: object) -> Reading:
    path = folder / name
    path.write_text(source)
    files = []
    for ending, value in beside.items():
        file = folder / ending
        file.write_text(value if isinstance(value, str) else json.dumps(value))
        files.append(file)
    return with_measurements(read_document(source.encode(), name), path, files, f"runs/{name}")


def record(reading: Reading) -> GuideRecord:
    assert reading.record is not None
    return GuideRecord.model_validate(reading.record)


def table(reading: Reading) -> str:
    assert reading.sections[0].trail[-1] == "Measurements"
    return reading.sections[0].blocks[0].text


def test_an_answer_is_a_kernel_with_its_title_and_scope(tmp_path: Path) -> None:
    reading = read(tmp_path, "answer.py", ANSWER)
    assert (reading.kind, reading.title) == ("kernel", "Softmax over rows in one pass")
    assert record(reading).scope.language == ("triton",)
    assert "softmax" in record(reading).scope.operator
    assert record(reading).evidence == ()


def test_a_source_without_numbers_stays_a_document(tmp_path: Path) -> None:
    assert read(tmp_path, "a.py", PLAIN).kind == "document"
    # A compiler leaves such files beside kernels; they measure nothing.
    assert read(tmp_path, "k.py", PLAIN, **{"k.json": {"num_warps": 4, "name": "k"}}).record is None


def test_a_result_of_kernelbench_becomes_evidence(tmp_path: Path) -> None:
    name = "level_1_problem_23_sample_0_kernel.py"
    entry = {
        "sample_id": 0,
        "compiled": True,
        "correctness": True,
        "metadata": {"hardware": "NVIDIA H100 80GB HBM3", "device": "cuda:0"},
        "runtime": 0.5,
        "ref_runtime": 1.25,
    }
    other = {**entry, "sample_id": 1, "runtime": 99.0}
    reading = read(
        tmp_path, name, ANSWER, **{"eval_results.json": {"23": [entry, other], "24": [other]}}
    )
    (only,) = record(reading).evidence
    assert only.task == "KernelBench level 1 problem 23"
    assert (only.before, only.after, only.outcome) == (1.25e-3, 0.5e-3, "won")
    assert only.note == NOTE
    assert "| 1.25 ms | 0.5 ms | 2.5x | yes |" in table(reading)


def test_a_wrong_answer_is_evidence_of_a_failure(tmp_path: Path) -> None:
    values = {"correctness": False, "runtime": -1.0, "ref_runtime": 2.0, "hardware": "A100"}
    (only,) = record(read(tmp_path, "k.py", ANSWER, **{"k.json": values})).evidence
    assert (only.outcome, only.after, only.target) == ("failed", None, "A100")


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ({"speedup": "2.4x"}, "| k | unknown |  |  | 2.4x | yes |"),
        ({"runtime_us": 50, "baseline_us": 100}, "| 0.1 ms | 0.05 ms | 2x | yes |"),
        ({"before": 0.002, "after": 0.004}, "| 2 ms | 4 ms | 0.5x | yes |"),
        (
            {"Op_Name": "gelu", "CUDA_Runtime": 1, "CUDA_Speedup_Native": 1},
            "| gelu | unknown |  | 1 ms |",
        ),
        (
            {"results": [{"task": "a|b", "time_ms": 3, "speedup": 2}]},
            r"| a\|b | unknown |  | 3 ms | 2x |",
        ),
        ([{"gpu": "L4", "time": 1, "eager": 3}], "| L4 | 3 ms | 1 ms | 3x |"),
    ],
)
def test_the_usual_ways_to_write_a_measurement_are_understood(
    tmp_path: Path, values: object, row: str
) -> None:
    assert row in table(read(tmp_path, "k.py", PLAIN, **{"k.json": values}))


def test_a_time_with_a_speed_up_gives_what_it_was_before(tmp_path: Path) -> None:
    values = {"runtime_ms": 2.0, "speedup": 3.0}
    (only,) = record(read(tmp_path, "k.py", PLAIN, **{"k.json": values})).evidence
    assert only.before == pytest.approx(6e-3)


@pytest.mark.parametrize(("name", "mark"), [("k.cu", "//"), ("k.py", "#")])
def test_front_matter_in_comments_is_read(tmp_path: Path, name: str, mark: str) -> None:
    head = (
        "---\ntitle: Rows in registers\nscope: {vendor: [nvidia], operator: [softmax]}\n"
        "evidence:\n- {task: softmax, target: h100, before: 2.0e-3, after: 1.0e-3}\n---"
    )
    comments = "\n".join(f"{mark} {line}" for line in head.split("\n"))
    reading = read(tmp_path, name, f"{comments}\n{'int x;' if name == 'k.cu' else PLAIN}\n")
    assert reading.title == "Rows in registers"
    assert record(reading).scope.vendor == ("nvidia",)
    assert [(one.before, one.after) for one in record(reading).evidence] == [(2e-3, 1e-3)]


def test_a_wrong_scope_in_front_matter_is_one_line(tmp_path: Path) -> None:
    head = "# ---\n# scope: {operator: [magic]}\n# speedup: 2\n# ---\n"
    with pytest.raises(RecordError, match=r"front matter has a wrong operator.*magic"):
        read(tmp_path, "k.py", head + PLAIN)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\0", '{"runtime": NaN,}'])
def test_measurements_that_cannot_be_read_are_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecordError, match=r"its measurements in k\.json cannot be read") as caught:
        read(tmp_path, "k.py", PLAIN, **{"k.json": text})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["x", -1, 0, 1e300, None, True, [1], {"a": 1}, "nan", "1e999"])
def test_what_is_no_time_is_passed_over(tmp_path: Path, value: object) -> None:
    assert read(tmp_path, "k.py", PLAIN, **{"k.json": {"runtime": value}}).record is None
