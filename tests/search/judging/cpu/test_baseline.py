"""The framework and a candidate meet the same conditions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from search.judging.cpu.judge import CpuJudge

TINY = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(4, 64)]
"""


@pytest.mark.slow
def test_a_tiny_reference_is_as_fast_as_its_own_candidate(
    make_judge: Callable[..., CpuJudge],
) -> None:
    # A library operator alone is no kernel of its own, and allowed; what counts here is the clock.
    outcome = make_judge(TINY).judge(TINY.replace("class Model", "class ModelNew"), thorough=True)
    assert outcome.kind == "passed", outcome
    ratio = outcome.speedup["eager"]
    # In the judge's process eager took half the time of the same call in a runner.
    assert ratio.low < 1.25, ratio
    assert ratio.high > 0.8, ratio


def test_a_reference_that_needs_its_folder_is_timed_here_and_that_is_said(
    make_judge: Callable[..., CpuJudge], tmp_path, monkeypatch
) -> None:
    (tmp_path / "neighbour_of_reference.py").write_text("SCALE = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "from neighbour_of_reference import SCALE\n" + TINY
    judge = make_judge(source)
    notes = judge.prepare().notes
    assert any("eager is timed in this process" in note for note in notes), notes
    assert judge.prepare().baselines["eager"] > 0
