import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        state = torch.zeros_like(b[:, 0])
        states = []
        for step in range(b.shape[1]):
            state = a[:, step] * state + b[:, step]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.rand(64, 128), torch.randn(64, 128)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def then(a, b, a_next, b_next):
    return a * a_next, a_next * b + b_next


@triton.jit
def scan(a, b, out, columns, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    place = tl.program_id(0) * columns + j
    decay = tl.load(a + place, mask=j < columns, other=1.0)
    add = tl.load(b + place, mask=j < columns, other=0.0)
    _, state = tl.associative_scan((decay, add), 0, then)
    tl.store(out + place, state, mask=j < columns)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(b)
        scan[(a.shape[0],)](a, b, out, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]))
        return out
