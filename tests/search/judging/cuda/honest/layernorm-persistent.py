import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_rows(x, weight, bias, y, rows, columns, eps, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    kept = at < columns
    gain = tl.load(weight + at, mask=kept)
    shift = tl.load(bias + at, mask=kept)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        value = tl.load(x + row * columns + at, mask=kept, other=0.0)
        mean = tl.sum(value, 0) / columns
        gap = tl.where(kept, value - mean, 0.0)
        scale = 1 / tl.sqrt(tl.sum(gap * gap, 0) / columns + eps)
        tl.store(y + row * columns + at, gap * scale * gain + shift, mask=kept)


def units(x):
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 3


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        norm_rows[(8 * units(x),)](
            x, self.norm.weight, self.norm.bias, y, rows, columns, self.norm.eps,
            BLOCK=triton.next_power_of_2(columns), num_warps=4,
        )
        return y
