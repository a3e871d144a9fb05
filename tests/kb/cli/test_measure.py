"""Ideas are measured by the real judge and compiler, and their records say what came of it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.records.schema import IdeaRecord, parse_record

pytestmark = pytest.mark.timed

IDEA = "cpu-pointwise-fused"


def record(path: Path) -> IdeaRecord:
    found = parse_record(path.read_text(encoding="utf-8"), path.name).record
    assert isinstance(found, IdeaRecord)
    return found


@pytest.mark.slow
def test_a_measurement_becomes_evidence_in_a_copy_of_the_record(make_shell):
    shell = make_shell()
    before = len(record(shipped_docs() / "ideas" / f"{IDEA}.md").evidence)
    # The shipped record may tell of this very machine.
    done = shell("measure", IDEA, "--shapes", "1", "--again", "--output", "out", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (told,) = report["measurements"] or report["not_measured"]
    assert told["idea"] == IDEA
    if report["not_measured"]:
        pytest.skip(f"too busy a machine: {told['reason']}")
    path = shell.folder / "out" / f"{IDEA}.md"
    *older, found = record(path).evidence
    assert len(older) == before
    assert found.task == told["task"] == "gelu-gate 64x256"
    assert found.target == report["target"]
    assert found.outcome in ("won", "even", "lost")
    assert found.low <= found.gain <= found.high
    assert "unroll=2" in found.note
    shipped = shipped_docs() / "ideas" / f"{IDEA}.md"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("  - {task:")]
    assert [line for line in kept if line != "evidence:"] == [
        line
        for line in shipped.read_text().splitlines()
        if not line.startswith(("  - {task:", "evidence:"))
    ]

    again = shell("measure", IDEA, "--shapes", "1", "--output", "out", "--json")
    assert json.loads(again.stdout)["present"] == 1
    assert json.loads(again.stdout)["measurements"] == []
    assert len(record(path).evidence) == before + 1


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(make_shell):
    shell = make_shell()
    before = len(record(shipped_docs() / "ideas" / f"{IDEA}.md").evidence)
    process = shell.start("measure", IDEA, "--shapes", "2", "--again", "--output", "out")
    for line in process.stderr:
        if line.startswith("[1/2]"):
            break
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert "the same command goes on" in told
    if "not measured" not in line:
        path = shell.folder / "out" / f"{IDEA}.md"
        assert len(record(path).evidence) == before + 1


@pytest.mark.slow
def test_a_dry_run_lists_ideas_and_shapes_and_measures_nothing(bare_shell):
    done = bare_shell("measure", IDEA, "--dry-run", "--shapes", "2", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["ideas"]
    assert row["pattern"] == "pointwise"
    assert [shape["kind"] for shape in row["shapes"]] == ["small", "cache"]
    assert not bare_shell.home.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("idea", "target", "told"),
    [("gpu-scan-rows", "h200", "cumsum 256x8192"), ("cpu-pool-fused", "zen3", "relu-max-pool")],
)
def test_what_another_device_would_measure_is_listed(bare_shell, idea, target, told):
    done = bare_shell("measure", idea, "--dry-run", "--target", target)
    assert done.returncode == 0, done.stderr
    assert told in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cpu-row-simd"], "cpu-rows-simd"),
        (["attention-by-tiles"], "has no recipe"),
        (["gpu-scan-rows"], "does not suit"),
        (["--shard", "5/4"], "expected I/N"),
        (["--write", "--output", "out"], "two folders"),
        (["gpu-scan-rows", "--target", "mi300x"], "is not here"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_two(bare_shell, arguments, told):
    done = bare_shell("measure", *arguments)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("kb: error")]
    assert told in line


@pytest.mark.slow
def test_kb_ideas_tells_what_was_measured_and_what_was_not(bare_shell):
    rows = {row["idea"]: row for row in json.loads(bare_shell("ideas", "--json").stdout)}
    assert rows["gpu-scan-split"]["measured"]["h200"]["won"] >= 1
    assert rows["bulk-tensor-copies"]["measured"] == {}
    assert "unmeasured" in bare_shell("ideas").stdout
