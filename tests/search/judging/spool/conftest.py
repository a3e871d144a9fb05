from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from office import Office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


@pytest.fixture
def until() -> Callable[..., None]:
    """Return a function that waits for something that another process does."""

    def wait(true: Callable[[], object], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() >= end:
                raise TimeoutError("it did not happen in time")
            time.sleep(0.02)

    return wait
