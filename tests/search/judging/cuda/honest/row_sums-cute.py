# interpreter: no, it is CuTe DSL
import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils
import torch
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 512


@cute.kernel
def add_rows(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    memory = cutlass.utils.SmemAllocator()
    parts = memory.allocate_tensor(cutlass.Float32, cute.make_layout(THREADS), 16)
    total = cutlass.Float32(0.0)
    for i in range(thread, x.shape[1], THREADS):
        total += x[row, i]
    parts[thread] = total
    cute.arch.sync_threads()
    if thread == 0:
        total = cutlass.Float32(0.0)
        for i in range(THREADS):
            total += parts[i]
        y[row] = total


@cute.jit
def row_sums(x: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    add_rows(x, y).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1], stream=stream)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = None

    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        given = (from_dlpack(x, assumed_align=16).mark_layout_dynamic(leading_dim=1), from_dlpack(y))
        if self.compiled is None:
            self.compiled = cute.compile(row_sums, *given, stream)
        self.compiled(*given, stream)
        return y
