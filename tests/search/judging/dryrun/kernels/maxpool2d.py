import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x, 2)


def get_inputs():
    return [torch.rand(8, 16, 64, 64)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pool(x, y, n, height, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    plane = i // (height * width)
    row, column = (i // width) % height, i % width
    start = x + plane * 4 * height * width + 4 * row * width + 2 * column
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for r in tl.static_range(2):
        for c in tl.static_range(2):
            best = tl.maximum(best, tl.load(start + 2 * r * width + c, mask=keep))
    tl.store(y + i, best, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        y = torch.empty(batch, channels, height // 2, width // 2, device=x.device)
        grid = (triton.cdiv(y.numel(), 256),)
        pool[grid](x, y, y.numel(), height // 2, width // 2, BLOCK=256)
        return y
