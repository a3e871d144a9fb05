"""torch.compile's Triton kernels for a GPU that is not here, as a candidate: compiled, and answered in the interpreter."""

from __future__ import annotations

import pytest

from search.codegen.inductor.candidate import write
from search.codegen.inductor.process import Device, capture
from search.sandbox.faults import Fault

REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(96)
        self.one = nn.Linear(96, 72)

    def forward(self, x):
        return torch.softmax(torch.nn.functional.gelu(self.one(self.norm(x))), dim=-1)


def get_inputs():
    return [torch.randn(40, 96)]
"""
FIGURES = {"capability": [9, 0], "units": 132, "shared": 232448, "warp": 32, "name": "a GPU"}


@pytest.fixture(scope="module")
def text() -> str:
    return write(REFERENCE, capture(REFERENCE, device=Device(figures=FIGURES)))


@pytest.mark.slow
def test_it_is_plain_triton_with_inductors_settings(text: str) -> None:
    assert "triton_heuristics" not in text
    assert "torch.compile(" not in text
    assert "@triton.autotune(" in text
    assert "restore_value=['in_out_ptr0']" in text
    assert "torch.mm(" in text or "torch.addmm(" in text


@pytest.mark.slow
def test_it_compiles_and_is_right_in_the_interpreter(text, make_desk, architectures) -> None:
    finding = make_desk(REFERENCE).examine(text, (architectures["sm_90"],))
    built = finding.built["sm_90"]
    assert not isinstance(built, Fault), built.outcome
    assert len(built.kernels) == 2
    assert not isinstance(finding.answers, Fault), finding.answers.outcome
    assert finding.answers.unchecked == ""
    assert finding.answers.max_error <= finding.answers.allowed_error
