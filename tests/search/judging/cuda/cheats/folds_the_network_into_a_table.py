# expect: wrong | differs
# task: table
"""Looks the answers up in a table of all of them that its constructor made."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rows_of(tokens, table, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    kept = at < width
    value = tl.load(table + tl.load(tokens + row) * width + at, mask=kept)
    tl.store(y + row * width + at, value, mask=kept)


class ModelNew(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.rows = nn.Embedding(words, width)
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)
        with torch.no_grad():
            self.table = [self.second(torch.relu(self.first(self.rows.weight))).cuda()]

    def forward(self, tokens):
        table = self.table[0]
        y = torch.empty(len(tokens), table.shape[1], device=tokens.device)
        width = table.shape[1]
        rows_of[(len(tokens),)](tokens, table, y, width, BLOCK=triton.next_power_of_2(width))
        return y
