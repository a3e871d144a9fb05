from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "ingest" / "killed.py"


@pytest.mark.slow
def test_ingests_killed_at_every_step_or_run_at_once_end_as_an_unbroken_one() -> None:
    # Without --steps the script kills twenty runs at random moments, each on a home of its own.
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--steps", "--together", "2", "--documents", "4"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "had ended" not in done.stdout
    assert "1 of 1 equal the unbroken run" in done.stdout
    assert "2 at once: equal to one alone" in done.stdout
