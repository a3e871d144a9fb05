import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def product(
    x, packed, bias, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    across, tiles = tl.cdiv(n, BN), tl.cdiv(m, BM) * tl.cdiv(n, BN)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile // across * BM + tl.arange(0, BM)
        columns = tile % across * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            at = start + tl.arange(0, BK)
            a = tl.load(
                x + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0
            )
            b = tl.load(
                packed + at[:, None] * n + columns[None, :],
                mask=(columns[None, :] < n) & (at[:, None] < k), other=0.0,
            )
            total += tl.dot(a, b, input_precision="ieee")
        total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
        tl.store(
            y + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n)
        )


class ModelNew(nn.Module):
    """Packs its weight once, in the constructor."""

    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)
        # A buffer moves to the device with the model; it is no part of the reference's state.
        packed = self.linear.weight.detach().t().contiguous()
        self.register_buffer("packed", packed, persistent=False)

    def forward(self, x):
        (m, k), n = x.shape, self.linear.weight.shape[0]
        units = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 3
        y = torch.empty(m, n, device=x.device)
        product[(2 * units,)](x, self.packed, self.linear.bias, y, m, n, k, BM=64, BN=64, BK=32)
        return y
