"""A task whose scripted model writes two ideas of two kernels each, one of them wrong."""

from __future__ import annotations

import json
from pathlib import Path

KERNEL = '''import ctypes
import torch
from kb.native import load_cpp

CPP_SOURCE = r"""
extern "C" void chain(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] * 2 + 1 : 1;  // version 0
}
"""
lib = load_cpp(CPP_SOURCE)
lib.chain.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.chain(x.data_ptr(), y.data_ptr(), x.numel())
        return y
'''
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1

def get_inputs():
    return [torch.randn(64, 500)]
"""
IDEAS = [
    {"title": title, "category": "memory access", "text": text, "passages": []}
    for title, text in (
        ("One pass over memory", "Read every element once and write it once."),
        ("Fewer branches", "Choose by a mask, so that the loop is vectorised."),
    )
]


def fenced(source: str) -> str:
    return f"```python\n{source}```\n"


def write_task(folder: Path, evaluator: object, **settings: object) -> Path:
    """Write a scripted model with two ideas of two implementations each, one of them wrong."""
    wrong = KERNEL.replace("* 2 + 1 : 1", "* 2 + 1 : 0")
    replies = [
        fenced(KERNEL),
        fenced(wrong),
        *(fenced(KERNEL.replace("version 0", f"version {n}")) for n in (1, 2)),
    ]
    script = [
        {"when": "Implement this idea", "replies": replies},
        {"when": r'"ideas"', "replies": [json.dumps({"ideas": IDEAS})]},
        {"when": ".", "replies": [fenced(KERNEL.replace("version 0", "mended"))]},
    ]
    (folder / "script.json").write_text(json.dumps(script))
    (folder / "ref.py").write_text(REFERENCE)
    task = {
        "reference": "ref.py",
        "model": {"provider": "scripted", "name": str(folder / "script.json")},
        "search": {"rounds": 1, "ideas": 2, "branches": 2},
        "evaluator": evaluator,
        "stop": {"minutes": None},
        "final_seconds": 1,
        **settings,
    }
    path = folder / "task.yaml"
    path.write_text(json.dumps(task))
    return path
