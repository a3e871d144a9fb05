"""Candidates that any careful judge must let pass, whatever order they add in."""

from collections.abc import Callable
from pathlib import Path

import pytest

from search.judging.judge import Judge

FOLDER = Path(__file__).parent / "honest"
REFERENCES = {
    "softmax": ("torch.softmax(x, -1)", "[torch.randn(64, 500)]"),
    "layernorm": ("nn.functional.layer_norm(x, (333,))", "[torch.randn(40, 333)]"),
    "chain": ("torch.exp(-x * x) * torch.sigmoid(x) + x", "[torch.randn(70, 129)]"),
    "matmul": ("x @ x.T", "[torch.rand(96, 210)]"),
    "row_sums": ("x.sum(-1)", "[torch.rand(16, 20000)]"),
}


def _reference(name: str) -> str:
    forward, inputs = REFERENCES[name]
    return (
        "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n"
        f"        return {forward}\ndef get_inputs():\n    return {inputs}\n"
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_honest_kernel_passes(make_judge: Callable[..., Judge], path: Path) -> None:
    judge = make_judge(_reference(path.stem.split("-")[0]))
    outcome = judge.judge(path.read_text())
    assert outcome.kind == "passed", outcome
    assert outcome.max_error <= outcome.allowed_error
    assert outcome.own_share is None or outcome.own_share > 0.5
