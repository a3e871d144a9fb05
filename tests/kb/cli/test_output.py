from __future__ import annotations

import pytest

from kb.cli.render.output import Lines
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
