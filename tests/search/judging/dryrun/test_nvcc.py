"""CUDA C++ in a dry run: compiled for the device, launches counted, answers left unchecked."""

from __future__ import annotations

import pytest

from kb.runtime.nvcc import cuda_home
from search.judging.dryrun.check import Built
from search.outcome import BuildFailed
from search.sandbox.faults import Fault

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(1000, 64)]
"""
CUDA = r'''
import torch
from torch import nn
from kb.native import load_cuda

module = load_cuda(r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) tile[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = 2 * tile[threadIdx.x];
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        module.twice((n + 255) // 256, 256, x, y, n)
        return y
'''
nvcc = pytest.mark.skipif(cuda_home() is None, reason="no nvcc on this machine")


@pytest.mark.slow
@nvcc
def test_cuda_is_compiled_for_each_nvidia_device_and_not_for_amd(make_desk, architectures):
    desk = make_desk(REFERENCE)
    chosen = tuple(architectures[name] for name in ("sm_80", "sm_90", "sm_120", "gfx942"))
    finding = desk.examine(CUDA, chosen)
    for name in ("sm_80", "sm_90", "sm_120"):
        built = finding.built[name]
        assert isinstance(built, Built), built
        (kernel,) = built.kernels
        assert (kernel.name, kernel.shared, kernel.warps, kernel.launches) == ("twice", 1024, 8, 1)
        assert kernel.registers > 0
        assert kernel.occupancy == 1.0
    amd = finding.built["gfx942"]
    assert isinstance(amd, Fault)
    assert isinstance(amd.outcome, BuildFailed)
    assert not isinstance(finding.answers, Fault)
    assert "CUDA C++" in finding.answers.unchecked


@nvcc
def test_an_error_in_cuda_has_its_line(make_desk, architectures):
    desk = make_desk(REFERENCE)
    finding = desk.examine(CUDA.replace("if (i < n) y", "if (i < n) z"), (architectures["sm_90"],))
    built = finding.built["sm_90"]
    assert isinstance(built, Fault)
    assert isinstance(built.outcome, BuildFailed)
    assert "kernel.cu line 7" in built.outcome.reason
    assert '"z" is undefined' in built.outcome.reason
