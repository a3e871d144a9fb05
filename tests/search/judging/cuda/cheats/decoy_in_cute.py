# expect: refused decoy-kernel | kernel
# task: linear
# with: own_linear
"""Launches a kernel in CuTe DSL that changes nothing beside the library's, which does the work."""
import cuda.bindings.driver as cuda
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def touch(y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    if thread == 0:
        y[0, 0] = y[0, 0] * 1.0


@cute.jit
def touched(y: cute.Tensor, stream: cuda.CUstream):
    touch(y).launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)


class ModelNew(Linear):
    compiled = None

    def forward(self, x):
        y = torch.nn.functional.linear(x, self.linear.weight, self.linear.bias)
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        if self.compiled is None:
            self.compiled = cute.compile(touched, from_dlpack(y), stream)
        self.compiled(from_dlpack(y), stream)
        return y
