# interpreter: no, it uses streams
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_row(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    mean = tl.sum(value, 0) / columns
    gap = tl.where(kept, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(gap * gap, 0) / columns + eps)
    gain = tl.load(weight + at, mask=kept)
    shift = tl.load(bias + at, mask=kept)
    tl.store(y + row * columns + at, gap * scale * gain + shift, mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)
        self.sides = None

    def forward(self, x):
        if self.sides is None:
            self.sides = torch.cuda.Stream(), torch.cuda.Stream()
        columns, now = x.shape[1], torch.cuda.current_stream()
        y = torch.empty_like(x)
        for side, piece, result in zip(self.sides, x.chunk(2), y.chunk(2)):
            side.wait_stream(now)
            with torch.cuda.stream(side):
                norm_row[(len(piece),)](
                    piece, self.norm.weight, self.norm.bias, result, columns, self.norm.eps,
                    BLOCK=triton.next_power_of_2(columns),
                )
        for side in self.sides:
            now.wait_stream(side)
        return y
