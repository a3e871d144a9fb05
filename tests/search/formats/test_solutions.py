from __future__ import annotations

import json

import pytest
import torch

from kb.errors import TaskError
from search.formats.solutions import SolutionTitle, write_solution, write_submission

DEFINITION = {
    "name": "scaled",
    "axes": {"n": {"type": "var"}},
    "inputs": {
        "x": {"shape": ["n"], "dtype": "bfloat16"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {
        "y": {"shape": ["n"], "dtype": "bfloat16"},
        "total": {"shape": [], "dtype": "float32"},
    },
    "reference": "def run(x, scale):\n    return x * scale, x.float().sum()\n",
}
CANDIDATE = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        wide = x.float() * scale
        return wide, x.float().sum()
"""
TRITON = "import triton\n\n\n@triton.jit\ndef kernel(x):\n    pass\n"
SOL = SolutionTitle(name="mine-1", form="sol-execbench", hardware="LOCAL")
FLASHINFER = SolutionTitle(name="mine-1", form="flashinfer-bench", hardware="NVIDIA_H100")


@pytest.fixture
def definition(tmp_path):
    path = tmp_path / "definition.json"
    path.write_text(json.dumps(DEFINITION))
    return path


def test_a_solution_is_one_file_whose_entry_returns_the_definitions_types(definition):
    told = json.loads(write_solution(definition, CANDIDATE, SOL))
    assert (told["name"], told["definition"]) == ("mine-1", "scaled")
    assert told["spec"]["languages"] == ["pytorch"]
    assert told["spec"]["destination_passing_style"] is False
    file, entry = told["spec"]["entry_point"].split("::")
    (source,) = told["sources"]
    assert source["path"] == file
    names: dict[str, object] = {}
    exec(source["content"], names)
    x = torch.randn(9).bfloat16()
    y, total = names[entry](x, scale=0.5)
    assert y.dtype is torch.bfloat16
    assert torch.equal(y, (x.float() * 0.5).bfloat16())
    assert torch.equal(total, x.float().sum())


def test_each_format_names_the_language_its_own_way(definition):
    triton = TRITON + CANDIDATE
    assert json.loads(write_solution(definition, triton, SOL))["spec"]["languages"] == ["triton"]
    spec = json.loads(write_solution(definition, triton, FLASHINFER))["spec"]
    assert (spec["language"], spec["target_hardware"]) == ("triton", ["NVIDIA_H100"])
    assert "languages" not in spec


def test_a_submission_unpacks_the_tuple_that_its_task_gives(write_gpumode):
    names: dict[str, object] = {}
    exec(write_submission(write_gpumode(), CANDIDATE), names)
    x = torch.randn(4)
    assert torch.equal(names["custom_kernel"]((x, 2.0))[0], x * 2)


def test_kernels_for_a_processor_are_refused(definition):
    native = 'from kb.native import load_cpp\n\nmade = load_cpp("")\n' + CANDIDATE
    with pytest.raises(TaskError, match=r"found C\+\+ for a processor"):
        write_solution(definition, native, SOL)
