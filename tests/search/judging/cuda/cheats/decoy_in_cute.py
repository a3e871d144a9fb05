# expect: refused decoy-kernel | kernel
# task: row_sums
"""Launches a kernel in CuTe DSL that changes nothing beside the library's, which does the work."""
import cuda.bindings.driver as cuda
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack
from torch import nn


@cute.kernel
def nudge(y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    if thread == 0:
        y[0] = y[0] * 1.0


@cute.jit
def nudged(y: cute.Tensor, stream: cuda.CUstream):
    nudge(y).launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = None

    def forward(self, x):
        y = x.sum(-1)
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        if self.compiled is None:
            self.compiled = cute.compile(nudged, from_dlpack(y), stream)
        self.compiled(from_dlpack(y), stream)
        return y
