"""CuTe DSL in a dry run: compiled by NVIDIA's package, launches noted, answers left unchecked."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from kb.config import shipped_docs
from search.judging.dryrun import check as desk_module
from search.judging.dryrun.check import Built
from search.outcome import BuildFailed, Crashed, Refused
from search.sandbox.faults import Fault

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return (x * self.w).sum(1)

def get_inputs():
    return [torch.randn(5000, 1000)]

def get_init_inputs():
    return [1000]
"""
CUTE = """
import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils
import torch
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 256
KEPT = {}


class RowSums:
    def __init__(self):
        self.blocks = cutlass.utils.HardwareInfo().get_max_active_clusters(1)

    @cute.jit
    def __call__(self, x: cute.Tensor, w: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
        self.row_sums(x, w, y).launch(
            grid=[cutlass.min(x.shape[0], self.blocks), 1, 1], block=[THREADS, 1, 1], stream=stream
        )

    @cute.kernel
    def row_sums(self, x: cute.Tensor, w: cute.Tensor, y: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        step, _, _ = cute.arch.grid_dim()
        memory = cutlass.utils.SmemAllocator()
        parts = memory.allocate_tensor(cutlass.Float32, cute.make_layout(THREADS), 16)
        while row < x.shape[0]:
            total = cutlass.Float32(0.0)
            for i in range(thread, x.shape[1], THREADS):
                total += x[row, i] * w[i]
            parts[thread] = total
            cute.arch.sync_threads()
            if thread == 0:
                total = cutlass.Float32(0.0)
                for i in range(THREADS):
                    total += parts[i]
                y[row] = total
            cute.arch.sync_threads()
            row += step


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        assert x.is_cuda
        y = torch.empty(x.shape[0], device=x.device)
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        given = (
            from_dlpack(x, assumed_align=16).mark_layout_dynamic(leading_dim=1),
            from_dlpack(self.w.detach()),
            from_dlpack(y),
        )
        if x.dtype not in KEPT:
            KEPT[x.dtype] = cute.compile(RowSums(), *given, stream)
        KEPT[x.dtype](*given, stream)
        KEPT[x.dtype](*given, stream)
        return y
"""
package = pytest.mark.skipif(
    find_spec("cutlass") is None,
    reason="nvidia-cutlass-dsl is not installed: pip install 'kernel-kb[cute]' (some 300 MB)",
)


@pytest.fixture(scope="module")
def desk(make_desk):
    return make_desk(REFERENCE)


def built_for(finding, name):
    built = finding.built[name]
    assert isinstance(built, Built), built
    (kernel,) = built.kernels
    return kernel


def failure(desk, architectures, source, name="sm_90"):
    fault = desk.examine(source, (architectures[name],)).built[name]
    assert isinstance(fault, Fault), fault
    return fault.outcome


@package
def test_a_kernel_is_compiled_for_each_nvidia_device_and_not_for_amd(desk, architectures):
    names = ("sm_80", "sm_90", "sm_100", "sm_120")
    finding = desk.examine(CUTE, tuple(architectures[name] for name in (*names, "gfx942")))
    registers = set()
    for name in names:
        kernel = built_for(finding, name)
        assert (kernel.name, kernel.architecture) == ("row_sums", name)
        # The cubin's own shared memory, and what the host code of the candidate launches.
        assert (kernel.shared, kernel.warps, kernel.launches) == (1024, 8, 2)
        assert (kernel.spills, kernel.occupancy) == (0, 1.0)
        registers.add(kernel.registers)
    assert min(registers) >= 16
    assert len(registers) > 1, "each architecture has machine code of its own"
    amd = finding.built["gfx942"]
    assert isinstance(amd, Fault)
    assert amd.outcome.reason.endswith("NVIDIA's devices only: write it in triton")
    assert not isinstance(finding.answers, Fault)
    assert finding.answers.unchecked == "its kernels are CuTe DSL, which runs on a device only"


@package
def test_errors_are_told_with_their_lines(desk, architectures):
    line = CUTE[: CUTE.index("total += x[row, i]")].count("\n") + 1
    outcome = failure(desk, architectures, CUTE.replace("x[row, i]", "unknown[row, i]"))
    assert isinstance(outcome, BuildFailed)
    assert outcome.reason.startswith(f"for sm_90: line {line}: NameError")
    assert "name 'unknown' is not defined" in outcome.reason
    # An exception of Python's own while a kernel is traced.
    outcome = failure(desk, architectures, CUTE.replace("parts[thread] = total", "parts[thread] = 'a'"))  # fmt: skip
    assert isinstance(outcome, BuildFailed)
    assert outcome.reason.startswith(f"for sm_90: line {line + 1}: ")


@package
def test_a_block_that_asks_for_more_than_the_device_has_is_refused(desk, architectures):
    source = CUTE.replace("make_layout(THREADS)", "make_layout(50_000)")
    outcome = failure(desk, architectures, source, "sm_80")
    assert isinstance(outcome, BuildFailed)
    assert "row_sums" in outcome.reason
    assert "200000 bytes of shared memory" in outcome.reason
    assert built_for(desk.examine(source, (architectures["sm_90"],)), "sm_90").shared == 200_000


@package
def test_a_tensor_that_requires_gradient_is_refused_as_on_a_device(desk, architectures):
    outcome = failure(desk, architectures, CUTE.replace("self.w.detach()", "self.w"))
    assert isinstance(outcome, Crashed)
    assert "requires gradient" in outcome.reason


@package
def test_a_kernel_that_is_declared_and_not_launched_counts_as_none(desk, architectures):
    start = CUTE.index("        y = torch.empty")
    source = CUTE[:start] + "        return (x * self.w).sum(1)\n"
    outcome = failure(desk, architectures, source)
    assert isinstance(outcome, Refused)
    assert outcome.trick == "no-own-kernel"


def test_without_the_package_the_outcome_says_what_to_install(desk, architectures, monkeypatch):
    monkeypatch.setattr(desk_module, "is_installed", lambda: False)
    outcome = failure(desk, architectures, CUTE)
    assert isinstance(outcome, BuildFailed)
    assert "pip install 'kernel-kb[cute]'" in outcome.reason


@package
def test_the_answer_of_the_language_page_passes(make_desk, architectures):
    page = (shipped_docs() / "languages" / "cute.md").read_text(encoding="utf-8")
    source = page.split("```python\n")[1].split("```")[0]
    reference = REFERENCE.replace("def __init__(self, n)", "def __init__(self, scale)")
    reference = reference.replace("self.w = nn.Parameter(torch.ones(n))", "self.scale = scale")
    reference = reference.replace("(x * self.w).sum(1)", "torch.relu(x * self.scale)")
    finding = make_desk(reference).examine(source, (architectures["sm_100"],))
    kernel = built_for(finding, "sm_100")
    assert (kernel.name, kernel.warps, kernel.launches) == ("scale_relu_kernel", 8, 1)


@package
def test_a_function_that_is_called_without_compiling_it_first_is_seen_too(desk, architectures):
    source = CUTE.replace("KEPT[x.dtype](*given, stream)", "RowSums()(*given, stream)")
    kernel = built_for(desk.examine(source, (architectures["sm_90"],)), "sm_90")
    assert (kernel.name, kernel.shared, kernel.launches) == ("row_sums", 1024, 2)
