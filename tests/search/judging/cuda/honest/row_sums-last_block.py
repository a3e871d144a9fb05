import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add(x, partial, tickets, y, columns, piece, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    last = tl.minimum((split + 1) * piece, columns)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(split * piece, last, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < last, other=0.0)
    tl.store(partial + row * SPLITS + split, tl.sum(total, 0))
    tl.debug_barrier()
    # The ticket is taken with acquire and release, so that who is last sees what all have stored.
    if tl.atomic_add(tickets + row, 1) == SPLITS - 1:
        at = partial + row * SPLITS + tl.arange(0, SPLITS)
        tl.store(y + row, tl.sum(tl.load(at, cache_modifier=".cg"), 0))
        tl.store(tickets + row, 0)


class ModelNew(nn.Module):
    """Lets the block that comes last add up; it leaves the tickets as it found them."""

    def forward(self, x):
        rows, columns = x.shape
        if not hasattr(self, "tickets") or self.tickets.device != x.device:
            self.tickets = torch.zeros(rows, dtype=torch.int32, device=x.device)
        partial, y = torch.empty(rows, 32, device=x.device), torch.empty(rows, device=x.device)
        add[(rows, 32)](
            x, partial, self.tickets, y, columns, triton.cdiv(columns, 32), SPLITS=32, BLOCK=1024
        )
        return y
