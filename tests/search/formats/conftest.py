from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

TASK = """from typing import TypedDict, TypeVar
import torch

input_t = TypeVar("input_t", bound=tuple[torch.Tensor, torch.Tensor])
output_t = TypeVar("output_t", bound=torch.Tensor)


class TestSpec(TypedDict):
    rows: int
    seed: int
"""
UTILS = """import numpy as nowhere
import torch


def matcher(reference):
    return lambda data, output: (True, "")


def doubled(value):
    return value * FACTOR


FACTOR = 2
"""
REFERENCE = """import torch
from task import input_t, output_t
from utils import doubled as twice, matcher

if not torch.cuda.is_available():
    raise RuntimeError("no device")


def generate_input(rows: int, scaled: bool, seed: int) -> input_t:
    made = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(rows, 64, device="cuda", generator=made)
    return x, torch.rand(64, device="cuda", generator=made).cuda()


def ref_kernel(data: input_t) -> output_t:
    x, weight = data
    return twice(x) * weight


check_implementation = matcher(ref_kernel)
"""
SPEC: dict[str, Any] = {
    "lang": "py",
    "files": [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "task.py", "source": "task.py"},
        {"name": "utils.py", "source": "../utils.py"},
        {"name": "reference.py", "source": "reference.py"},
    ],
    "config": {"main": "eval.py"},
    "description": "Twice x, weighted.",
    "tests": [{"rows": 8, "scaled": False, "seed": 1}],
    "benchmarks": [
        {"rows": 32, "scaled": False, "seed": 2},
        {"rows": 64, "scaled": True, "seed": 3},
    ],
    "test_timeout": 180,
    "ranking_by": "geom",
}


@pytest.fixture
def write_gpumode(tmp_path) -> Callable[..., Path]:
    """Return a function that writes a task of GPU MODE with other keys or files, and returns its path."""

    def write(texts: dict[str, str] | None = None, **keys: Any) -> Path:
        folder = tmp_path / "problems" / "twice_py"
        folder.mkdir(parents=True, exist_ok=True)
        own = {"task.py": TASK, "../utils.py": UTILS, "reference.py": REFERENCE, **(texts or {})}
        for name, text in own.items():
            (folder / name).write_text(text)
        (folder / "task.yml").write_text(yaml.safe_dump({**SPEC, **keys}))
        return folder / "task.yml"

    return write
