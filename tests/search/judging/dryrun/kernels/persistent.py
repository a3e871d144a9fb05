import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)


def get_inputs():
    return [torch.randn(400, 1000)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        i = tile * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)
        tl.store(out + i, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        units = torch.cuda.get_device_properties(x.device).multi_processor_count
        with torch.cuda.device(x.device):
            gelu[(min(units, triton.cdiv(x.numel(), 2048)),)](x, out, x.numel(), BLOCK=2048)
        torch.cuda.synchronize()
        return out
