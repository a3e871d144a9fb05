from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.table import Table

from kb.app.bench.record import SuiteRecords
from kb.cli.bench import show
from kb.cli.render.output import Lines, console, steps
from kb.config import Home
from kb.database import open_engine
from kb.units import long_text


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_long_work_tells_now_and_then_how_much_is_left() -> None:
    lines: list[str] = []
    clock = Clock()
    progress = Lines(lines.append, clock)
    progress("reading documents", 0, 3)
    for done in range(0, 1001, 100):
        clock.now = done / 10  # ten passages a second
        progress("embedding passages", done, 1000)
    assert lines[:2] == ["… reading documents", "… embedding passages"]
    assert lines[2] == "… embedding passages: 100 of 1,000, about 2 min left"
    assert lines[-1] == "… embedding passages: 1,000 of 1,000, about 0 s left"
    assert len(lines) == 12


def test_what_was_done_before_does_not_make_the_estimate_rosy() -> None:
    lines: list[str] = []
    clock = Clock()
    progress = Lines(lines.append, clock)
    progress("embedding passages", 900, 1000)
    clock.now = 20.0
    progress("embedding passages", 920, 1000)
    assert lines[-1].endswith("920 of 1,000, about 80 s left")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (61, "61 s"), (100, "2 min"), (3600, "60 min"), (5430, "1 h 30 min")],
)
def test_stretches_of_time_are_told_as_people_plan_with_them(seconds: float, text: str) -> None:
    assert long_text(seconds) == text


def test_square_brackets_of_a_title_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table("idea", box=None)
    for title in ("Stage A in [/smem] first", "Pack B as [n][k] panels", r"Keep \[ as it is"):
        table.add_row(title)
    console().print(table)
    shown = capsys.readouterr().out
    assert "Stage A in [/smem] first" in shown
    assert "Pack B as [n][k] panels" in shown
    assert r"Keep \[ as it is" in shown


def test_square_brackets_of_a_title_do_not_end_the_progress_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with steps() as progress:
        progress("Stage A in [/smem] first", 0, 2)
    assert "[/smem]" in capsys.readouterr().err


@pytest.mark.parametrize("as_json", [False, True])
def test_a_suite_is_written_to_the_file_that_is_asked_for_in_every_form(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    monkeypatch.setenv("KB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KB_DATABASE", raising=False)
    records = SuiteRecords(open_engine(Home.find().make()))
    name = records.begin(
        {"name": "own", "target": "zen5", "precision": "strict", "author": "auto", "judge": "cpu-6",
         "torch": "2.13.0", "candidates": 8, "seconds": 90.0}
    )  # fmt: skip
    show(name, lines=False, output=tmp_path / "shown", json=as_json)
    assert capsys.readouterr().out == f"wrote {tmp_path / 'shown'}: 0 problems\n"
    show(name, lines=False, output=None, json=as_json)
    assert (tmp_path / "shown").read_text() == capsys.readouterr().out
