from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn(64, 512)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def write_problem() -> Callable[[Path, str], Path]:
    """Return a function that writes a problem in KernelBench's form."""

    def write(path: Path, body: str = "return torch.relu(x)") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROBLEM.format(body=body))
        return path

    return write
