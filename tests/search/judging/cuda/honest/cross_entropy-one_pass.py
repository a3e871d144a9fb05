import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def loss(x, labels, y, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < classes
    value = tl.load(x + row * classes + at, mask=kept, other=float("-inf"))
    top = tl.max(value, 0)
    total = tl.sum(tl.exp(value - top), 0)
    wanted = tl.load(x + row * classes + tl.load(labels + row))
    tl.store(y + row, tl.log(total) - (wanted - top))


class ModelNew(nn.Module):
    def forward(self, x, labels):
        rows, classes = x.shape
        y = torch.empty(rows, device=x.device)
        loss[(rows,)](x, labels, y, classes, BLOCK=triton.next_power_of_2(classes))
        return y
