import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def chain(x, shift, out, count, columns, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, count, step):
        at = start + tl.arange(0, BLOCK)
        kept = at < count
        value = tl.load(x + at, mask=kept, eviction_policy="evict_first")
        y = value + tl.load(shift + at % columns, mask=kept, eviction_policy="evict_last")
        clamped = tl.minimum(tl.maximum(y, -1.0), 2.0)
        tl.store(out + at, y * tl.sigmoid(y) * 0.5 + clamped + value, mask=kept, cache_modifier=".cs")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        out = torch.empty_like(x)
        units = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 2
        chain[(4 * units,)](x, self.shift, out, x.numel(), x.shape[-1], BLOCK=2048 if x.is_cuda else 64)
        return out
