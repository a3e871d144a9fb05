import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gather(tokens, table, position, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    kept = at < width
    word = tl.load(tokens + row)
    value = tl.load(table + word * width + at, mask=kept)
    tl.store(y + row * width + at, value + tl.load(position + row * width + at, mask=kept), mask=kept)


class ModelNew(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)

    def forward(self, tokens, position):
        y = torch.empty_like(position)
        width = y.shape[1]
        gather[(len(tokens),)](
            tokens, self.table.weight, position, y, width, BLOCK=triton.next_power_of_2(width)
        )
        return y
