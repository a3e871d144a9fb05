import torch
from torch import nn


class Model(nn.Module):
    def forward(self, logits, classes):
        return torch.nn.functional.cross_entropy(logits, classes)


def get_inputs():
    return [torch.randn(512, 1000), torch.randint(0, 1000, (512,))]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def losses(logits, classes, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    v = tl.load(logits + row * columns + j, mask=j < columns, other=-float("inf"))
    top = tl.max(v, axis=0)
    log_sum = tl.log(tl.sum(tl.exp(v - top), axis=0)) + top
    chosen = tl.load(logits + row * columns + tl.load(classes + row))
    tl.store(out + row, log_sum - chosen)


@triton.jit
def mean(x, out, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, logits, classes):
        rows, columns = logits.shape
        each = torch.empty(rows, device=logits.device)
        out = torch.empty((), device=logits.device)
        losses[(rows,)](logits, classes, each, columns, BLOCK=triton.next_power_of_2(columns))
        mean[(1,)](each, out, rows, BLOCK=256)
        return out
