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
    """Persistent programs over a packed weight, which is packed again when the parameter changes."""

    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)
        self.packed_from, self.packed = None, None

    def forward(self, x):
        weight = self.linear.weight
        state = weight.data_ptr(), weight._version
        if self.packed_from != state:
            self.packed_from, self.packed = state, weight.detach().t().contiguous()
        (m, k), n = x.shape, weight.shape[0]
        units = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 3
        y = torch.empty(m, n, device=x.device)
        product[(2 * units,)](x, self.packed, self.linear.bias, y, m, n, k, BM=64, BN=64, BK=32)
        return y
