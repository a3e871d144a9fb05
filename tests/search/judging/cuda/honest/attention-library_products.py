import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_row(score, columns, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(score + row * columns + at, mask=kept, other=float("-inf")) * scale
    power = tl.exp(value - tl.max(value, 0))
    tl.store(score + row * columns + at, power / tl.sum(power, 0), mask=kept)


class ModelNew(nn.Module):
    """Two products by the library, and between them a kernel that works on its temporary in place."""

    def forward(self, q, k, v):
        score = torch.bmm(q, k.transpose(1, 2))
        heads, length, _ = score.shape
        softmax_row[(heads * length,)](
            score, length, q.shape[-1] ** -0.5, BLOCK=triton.next_power_of_2(length)
        )
        return torch.bmm(score, v)
