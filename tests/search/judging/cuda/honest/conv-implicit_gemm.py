import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def convolve(
    x, w, bias, y, outer, side, inner: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    image = tl.program_id(2)
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    channel = tl.program_id(1) * BN + tl.arange(0, BN)
    row, column = place // side, place % side
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, inner * 9, BK):
        at = start + tl.arange(0, BK)
        source, tap = at // 9, at % 9
        down = row[:, None] + (tap // 3)[None, :] - 1
        across = column[:, None] + (tap % 3)[None, :] - 1
        kept = (down >= 0) & (down < side) & (across >= 0) & (across < side) & (at < inner * 9)[None, :]
        value = tl.load(
            x + ((image * inner + source)[None, :] * side + down) * side + across, mask=kept, other=0.0
        )
        weight = tl.load(
            w + channel[None, :] * (inner * 9) + at[:, None],
            mask=(channel[None, :] < outer) & (at[:, None] < inner * 9), other=0.0,
        )
        total += tl.dot(value, weight, input_precision="ieee")
    total += tl.load(bias + channel, mask=channel < outer, other=0.0)[None, :]
    tl.store(
        y + (image * outer + channel)[None, :] * side * side + place[:, None], total,
        mask=(place[:, None] < side * side) & (channel[None, :] < outer),
    )


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1)

    def forward(self, x):
        images, inner, side, _ = x.shape
        outer = self.conv.weight.shape[0]
        y = torch.empty(images, outer, side, side, device=x.device)
        grid = (triton.cdiv(side * side, 64), triton.cdiv(outer, 32), images)
        convolve[grid](
            x, self.conv.weight, self.conv.bias, y, outer, side, inner, BM=64, BN=32, BK=32
        )
        return y
