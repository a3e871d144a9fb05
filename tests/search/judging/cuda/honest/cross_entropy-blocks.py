import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def loss(x, labels, y, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -3.0e38
    total = 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * classes + at, mask=at < classes, other=float("-inf"))
        above = tl.maximum(top, tl.max(value, 0))
        total = total * tl.exp(top - above) + tl.sum(tl.exp(value - above), 0)
        top = above
    wanted = tl.load(x + row * classes + tl.load(labels + row))
    tl.store(y + row, tl.log(total) - (wanted - top))


class ModelNew(nn.Module):
    def forward(self, x, labels):
        rows, classes = x.shape
        y = torch.empty(rows, device=x.device)
        loss[(rows,)](x, labels, y, classes, BLOCK=512)
        return y
