import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pool(x, y, side, wide, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    kept = at < wide * wide
    row, column = at // wide * 2 - 1, at % wide * 2 - 1
    top = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(9):
        down, across = row + tap // 3, column + tap % 3
        inside = kept & (down >= 0) & (down < side) & (across >= 0) & (across < side)
        top = tl.maximum(top, tl.load(x + (plane * side + down) * side + across, mask=inside, other=0.0))
    tl.store(y + plane * wide * wide + at, top, mask=kept)


class ModelNew(nn.Module):
    """The greatest of non-negative numbers starts at zero, so that relu and padding cost nothing."""

    def forward(self, x):
        images, planes, side, _ = x.shape
        wide = (side - 1) // 2 + 1
        y = torch.empty(images, planes, wide, wide, device=x.device)
        pool[(images * planes, triton.cdiv(wide * wide, 1024))](x, y, side, wide, BLOCK=1024)
        return y
