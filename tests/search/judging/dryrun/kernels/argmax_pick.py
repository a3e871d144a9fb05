import torch
from torch import nn


class Model(nn.Module):
    def forward(self, scores, values):
        return torch.gather(values, 1, scores.argmax(dim=1, keepdim=True)).squeeze(1)


def get_inputs():
    return [torch.randn(300, 700), torch.randn(300, 700)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pick(scores, values, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    v = tl.load(scores + row * columns + j, mask=j < columns, other=-float("inf"))
    place = tl.argmax(v, axis=0)
    tl.store(out + row, tl.load(values + row * columns + place))


class ModelNew(nn.Module):
    def forward(self, scores, values):
        out = scores.new_empty(scores.shape[0])
        pick[(scores.shape[0],)](
            scores, values, out, scores.shape[1], BLOCK=triton.next_power_of_2(scores.shape[1])
        )
        return out
