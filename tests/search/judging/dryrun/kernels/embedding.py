import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, words, features):
        super().__init__()
        self.table = nn.Embedding(words, features)

    def forward(self, ids):
        return self.table(ids)


def get_inputs():
    return [torch.randint(0, 1000, (2048,))]


def get_init_inputs():
    return [1000, 256]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gather(table, ids, out, features, BLOCK: tl.constexpr):
    word = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    row = tl.load(ids + word)
    v = tl.load(table + row * features + j, mask=j < features)
    tl.store(out + word * features + j, v, mask=j < features)


class ModelNew(nn.Module):
    def __init__(self, words, features):
        super().__init__()
        self.table = nn.Embedding(words, features)

    def forward(self, ids):
        table = self.table.weight
        out = torch.empty(ids.numel(), table.shape[1], device=ids.device, dtype=table.dtype)
        gather[(ids.numel(),)](
            table, ids, out, table.shape[1], BLOCK=triton.next_power_of_2(table.shape[1])
        )
        return out
