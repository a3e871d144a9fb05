"""Kernels for GPUs that are not here, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="a dry run needs triton: pip install 'kernel-kb[triton]'")

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(1000, 300)]
"""
ANSWER = """
import torch
import triton
import triton.language as tl
from torch import nn

@triton.jit
def relu2(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.maximum(v, 0.0) * 2, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda
        out = torch.empty_like(x)
        relu2[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
"""
IDEAS = {
    "ideas": [
        {
            "title": "One pass",
            "description": "Load once, compute, store once.",
            "category": "memory access",
        }
    ]
}


@pytest.fixture(scope="module")
def shell(make_shell):
    shell = make_shell()
    (shell.folder / "ref.py").write_text(REFERENCE)
    (shell.folder / "answer.py").write_text(ANSWER)
    return shell


@pytest.mark.slow
def test_dry_prints_what_kernels_need_and_that_nothing_was_timed(shell):
    done = shell(
        "dry", "answer.py", "--reference", "ref.py", "-a", "sm_90", "-a", "mi300x", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert "nothing was timed" in done.stderr
    report = json.loads(done.stdout)
    assert report["timed"] is False
    assert list(report["architectures"]) == ["sm_90", "gfx942"]
    for outcome in report["architectures"].values():
        assert outcome["kind"] == "checked"
        assert outcome["timed"] is False
        assert outcome["kernels"][0]["name"] == "relu2"
        assert outcome["kernels"][0]["registers"] > 0
    assert report["answers"].startswith("right in the interpreter")


@pytest.mark.slow
def test_dry_draws_a_table_and_fails_where_a_kernel_does_not_compile(shell):
    (shell.folder / "broken.py").write_text(ANSWER.replace("tl.maximum", "tl.maximal"))
    done = shell("dry", "broken.py", "-r", "ref.py", "-a", "sm_80")
    assert done.returncode == 4
    assert "build failed" in done.stdout
    assert "maximal" in done.stdout
    done = shell("dry", "answer.py", "-r", "ref.py", "-a", "sm_80")
    assert done.returncode == 0
    assert "relu2" in done.stdout
    assert "occupancy" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nothing.py", "-r", "ref.py"), "nothing.py"),
        (("answer.py", "-r", "nothing.py"), "does not exist"),
        (("answer.py", "-r", "ref.py", "-a", "sm_1"), "known are sm_80"),
    ],
)
def test_what_the_user_can_mend_is_one_line(shell, arguments, told):
    done = shell("dry", *arguments)
    assert done.returncode == 2
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("kb: error: ")
    assert told in line


@pytest.mark.slow
def test_evolve_for_a_gpu_elsewhere_runs_to_its_end(shell):
    fenced = [f"```python\n{source}```\n" for source in (ANSWER, ANSWER.replace("* 2,", "* 3,"))]
    script = [
        {"when": "Implement this idea", "replies": fenced},
        {"when": r'"ideas"', "replies": [json.dumps(IDEAS)]},
        {"when": ".", "replies": [fenced[0].replace("BLOCK=1024", "BLOCK=512")]},
    ]
    (shell.folder / "script.json").write_text(json.dumps(script))
    task = {
        "reference": "ref.py",
        "target": "h100",
        "model": {"provider": "scripted", "name": str(shell.folder / "script.json")},
        "search": {"rounds": 1, "ideas": 1, "branches": 2},
    }
    (shell.folder / "task.yaml").write_text(json.dumps(task))
    done = shell("evolve", "task.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert "nothing was timed" in done.stderr
    report = json.loads(done.stdout)
    assert report["timed"] is False
    assert report["target"] == "h100"
    assert report["baselines"] == {}
    assert report["outcomes"]["checked"] >= 1
    assert report["outcomes"]["wrong"] >= 1
    assert "speedup" not in report["best"]
    assert "class ModelNew" in report["best"]["source"]
    assert not list(Path(shell.home).glob("lessons/*.md"))
    for command in ("show", "tree"):
        shown = shell(command, report["run"])
        assert shown.returncode == 0, shown.stderr
        assert "registers" in shown.stdout
    assert shell("runs").returncode == 0
    node = json.loads(shell("node", report["run"], report["best"]["node"], "--json").stdout)
    assert node["result"]["timed"] is False
