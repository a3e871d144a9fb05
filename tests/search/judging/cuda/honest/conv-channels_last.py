import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def convolve(x, w, bias, y, outer, side, inner: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    image = tl.program_id(2)
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    channel = tl.program_id(1) * BN + tl.arange(0, BN)
    row, column = place // side, place % side
    total = tl.zeros((BM, BN), tl.float32)
    for tap in range(9):
        down, across = row + tap // 3 - 1, column + tap % 3 - 1
        inside = (down >= 0) & (down < side) & (across >= 0) & (across < side) & (row < side)
        for start in range(0, inner, BK):
            source = start + tl.arange(0, BK)
            value = tl.load(
                x + ((image * side + down) * side + across)[:, None] * inner + source[None, :],
                mask=inside[:, None] & (source < inner)[None, :], other=0.0,
            )
            weight = tl.load(
                w + (tap * inner + source)[:, None] * outer + channel[None, :],
                mask=(source < inner)[:, None] & (channel < outer)[None, :], other=0.0,
            )
            total += tl.dot(value, weight, input_precision="ieee")
    total += tl.load(bias + channel, mask=channel < outer, other=0.0)[None, :]
    tl.store(
        y + (image * outer + channel)[None, :] * side * side + place[:, None], total,
        mask=(place[:, None] < side * side) & (channel[None, :] < outer),
    )


class ModelNew(nn.Module):
    """Lets the library change the memory format, and packs the weight in every call."""

    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1)

    def forward(self, x):
        images, inner, side, _ = x.shape
        outer = self.conv.weight.shape[0]
        across = x.permute(0, 2, 3, 1).contiguous()
        packed = self.conv.weight.permute(2, 3, 1, 0).contiguous()
        y = torch.empty(images, outer, side, side, device=x.device)
        grid = (triton.cdiv(side * side, 64), triton.cdiv(outer, 32), images)
        convolve[grid](across, packed, self.conv.bias, y, outer, side, inner, BM=64, BN=32, BK=32)
        return y
