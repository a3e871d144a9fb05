"""The honest candidates for a GPU are right: their kernels run in Triton's interpreter, on the processor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from search.judging.corpus.cases import header, load_cases

pytest.importorskip("triton", reason="needs Triton's interpreter")
SKIPPED = {
    case.name
    for case in load_cases("cuda", ("honest",))
    if header(case.source).get("interpreter", "").startswith("no")
}
CHECKED = [
    *(case.name for case in load_cases("cuda", ("honest",)) if case.name not in SKIPPED),
    "own_norm",
    "own_linear",
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("interpret.py"))],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TRITON_INTERPRET": "1",
            "OMP_NUM_THREADS": "1",
        },
        cwd=tmp_path_factory.mktemp("interpreter"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_an_honest_kernel_is_right_on_every_distribution(told: dict[str, str], name: str) -> None:
    assert told[name] == ""


def test_most_honest_kernels_can_be_checked_without_a_gpu() -> None:
    assert len(CHECKED) >= 35
    assert len(SKIPPED) <= 16
