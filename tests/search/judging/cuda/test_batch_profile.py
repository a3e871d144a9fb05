"""What a batch under the profiler must look like, call by call."""

from typing import Any

import pytest

from search.judging.cuda.batch_profile import Windows, read_windows

FLUSH = 50_000  # ns
NAMES = [
    "vectorized_elementwise_kernel<4, at::native::FillFunctor<unsigned char>>",
    "mine",
    "Memcpy DtoD",
]
FILL, MINE, COPY = range(3)
Row = tuple[int, int, int]


def batch(*rows: Row) -> dict[str, Any]:
    """Return a capture of (name, start, duration) in ns."""
    kinds = {FILL: 0, MINE: 0, COPY: 1}
    return {
        "names": NAMES,
        "events": [[kinds[name], name, 0, start, took, 7] for name, start, took in rows],
    }


def call(at: int, *work: int) -> list[Row]:
    """Return two fills from `at` on, then kernels of the given lengths, then the copy of the answer."""
    rows = [(FILL, at, FLUSH), (FILL, at + FLUSH, FLUSH)]
    now = at + 2 * FLUSH
    for took in work or (10_000,):
        rows.append((MINE, now, took))
        now += took
    return [*rows, (COPY, now, 5_000)]


def read(*rows: Row) -> Windows:
    return read_windows(batch(*rows), 2, 2, FLUSH / 1e9, 1)


def test_calls_one_after_the_other_are_as_they_should_be() -> None:
    found = read(*call(0, 10_000, 5_000), *call(200_000, 30_000))
    assert found.strange is None
    assert found.mean == pytest.approx(22.5e-6)  # of 15 and 30


def test_a_kernel_while_the_caches_are_emptied_is_told() -> None:
    found = read(*call(0), *call(200_000), (MINE, 210_000, 20_000))
    assert "mine ran before its call" in str(found.strange)


def test_an_emptying_left_out_is_told() -> None:
    assert "before 1 of 2 calls" in str(read(*call(0), *call(200_000)[1:]).strange)


def test_a_call_that_runs_nothing_is_told() -> None:
    rows = [*call(200_000)[:2], (COPY, 300_000, 5_000)]
    assert "ran nothing" in str(read(*call(0), *rows).strange)


def test_kernels_that_touch_by_their_launch_are_neighbours() -> None:
    early = [
        (name, start - 1_000 if name == MINE else start, took) for name, start, took in call(0)
    ]
    assert read(*early, *call(200_000)).strange is None


def test_a_program_may_fill_memory_of_its_own() -> None:
    def filling(at: int) -> list[Row]:
        flushes, rest = call(at)[:2], call(at + FLUSH + 20_000)[2:]
        return [*flushes, (FILL, at + 2 * FLUSH, FLUSH), *rest]

    found = read(*filling(0), *filling(400_000))
    assert found.strange is None
    assert found.mean == pytest.approx(60e-6)


def test_kernels_at_once_are_counted_once() -> None:
    rows = [*call(0, 10_000), (MINE, 105_000, 4_000)]
    assert read(*sorted(rows, key=lambda row: row[1]), *call(200_000)).mean <= 10e-6


@pytest.mark.parametrize("missing", ["names", "events"])
def test_what_is_no_capture_raises(missing: str) -> None:
    told = batch(*call(0))
    del told[missing]
    with pytest.raises(KeyError):
        read_windows(told, 1, 2, FLUSH / 1e9, 1)
