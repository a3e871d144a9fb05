"""A commit runs a part of the slow tests, and all parts together are all tests."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDER = HERE / "search" / "work"  # files of both kinds


def collected(*options: str) -> list[str]:
    """Return the names of the tests that pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", *options]
    told = subprocess.run(
        [*command, "--import-mode=importlib", "-p", "no:cacheprovider", str(FOLDER)],
        capture_output=True, text=True, cwd=HERE.parent, check=False,
    )  # fmt: skip
    return [line for line in told.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_parts_share_the_slow_tests_and_have_all_others() -> None:
    every, quick = collected(), collected("-m", "not slow")
    parts = [collected("--part", f"{number}/2") for number in (1, 2)]
    slow = [name for part in parts for name in part if name not in quick]
    assert quick
    assert all(set(quick) < set(part) < set(every) for part in parts)
    assert sorted(slow + quick) == sorted(every)
