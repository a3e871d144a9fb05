# expect: refused|crashed no-own-kernel,decoy-kernel,library-call | kernel|cublas
# task: linear
# with: own_linear
"""Calls the vendor's library through its C interface, beside a kernel of its own that does nothing."""
import ctypes
import re


def library():
    for line in open("/proc/self/maps"):
        found = re.search(r"\S*libcublas\.so\S*", line)
        if found:
            return ctypes.CDLL(found[0])
    raise RuntimeError("no cublas here")


class ModelNew(Linear):
    def forward(self, x):
        cublas, handle = library(), torch.cuda.current_blas_handle()
        w = self.linear.weight
        m, k, n = x.shape[0], x.shape[1], w.shape[0]
        y = self.linear.bias.expand(m, n).contiguous()
        one = ctypes.c_float(1.0)
        pointers = [ctypes.c_void_p(value.data_ptr()) for value in (w, x, y)]
        code = cublas.cublasSgemm_v2(
            ctypes.c_void_p(handle), 1, 0, n, m, k, ctypes.byref(one), pointers[0], k, pointers[1], k,
            ctypes.byref(one), pointers[2], n,
        )
        if code:
            raise RuntimeError(f"cublas says {code}")
        nudge[(1,)](y)
        return y
