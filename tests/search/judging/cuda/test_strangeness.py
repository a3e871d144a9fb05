"""What a batch under the profiler must look like, call by call."""

from typing import Any

import pytest

from search.judging.cuda.verdict import strangeness

SECOND = 10**9
FLUSH = 50_000  # ns
NAMES = [
    "vectorized_elementwise_kernel<4, at::native::FillFunctor<unsigned char>>",
    "mine",
    "Memcpy DtoD",
]
FILL, MINE, COPY = range(3)


def batch(*rows: tuple[int, int, int]) -> dict[str, Any]:
    """Return a capture of (name, start, duration) in ns."""
    kinds = {FILL: 0, MINE: 0, COPY: 1}
    return {
        "names": NAMES,
        "events": [[kinds[name], name, 0, start, took, 7] for name, start, took in rows],
    }


def call(at: int) -> list[tuple[int, int, int]]:
    return [(FILL, at, FLUSH), (MINE, at + FLUSH, 10_000), (COPY, at + FLUSH + 10_000, 5_000)]


def strange(*rows: tuple[int, int, int]) -> str | None:
    return strangeness(batch(*rows), 2, 1, FLUSH / SECOND)


def test_calls_one_after_the_other_are_as_they_should_be() -> None:
    assert strange(*call(0), *call(100_000)) is None


def test_a_kernel_while_the_caches_are_emptied_is_told() -> None:
    told = strange(*call(0), *call(100_000), (MINE, 110_000, 20_000))
    assert told is not None
    assert "mine" in told


def test_an_emptying_left_out_is_told() -> None:
    told = strange(*call(0), *call(100_000)[1:])
    assert told is not None
    assert "1 times in 2 calls" in told


def test_a_call_that_runs_nothing_is_told() -> None:
    told = strange(*call(0), (FILL, 100_000, FLUSH), (COPY, 160_000, 5_000))
    assert told is not None
    assert "ran nothing" in told


def test_kernels_that_touch_by_their_launch_are_neighbours() -> None:
    rows = [*call(0), (FILL, 64_500, FLUSH), (MINE, 64_500 + FLUSH - 1_000, 10_000)]
    assert strange(*rows) is None


@pytest.mark.parametrize("missing", ["names", "events"])
def test_what_is_no_capture_raises(missing: str) -> None:
    told = batch(*call(0))
    del told[missing]
    with pytest.raises(KeyError):
        strangeness(told, 1, 1, FLUSH / SECOND)
