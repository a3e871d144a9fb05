import torch
from torch import nn

BATCH, LENGTH, WIDTH, EXPERTS, SLOTS, INNER = 8, 2048, 1024, 16, 64, 2048


class Model(nn.Module):
    """Experts that work on slots, each a softmax mixture of the tokens, and tokens that mix the slots' results."""

    def __init__(self, width: int, experts: int, slots: int, inner: int) -> None:
        super().__init__()
        self.slots = nn.Parameter(
            (torch.randn(width, experts * slots) * 2.5 / width**0.5).bfloat16()
        )
        self.up = nn.Parameter((torch.randn(experts, width, inner) / width**0.5).bfloat16())
        self.down = nn.Parameter((torch.randn(experts, inner, width) * 2 / inner**0.5).bfloat16())

    def forward(self, x):
        batch, _, width = x.shape
        experts = self.up.shape[0]
        scores = (x @ self.slots).float()
        send, fetch = (torch.softmax(scores, d).to(x.dtype) for d in (1, 2))
        held = (send.transpose(1, 2) @ x).view(batch, experts, -1, width).transpose(0, 1)
        inner = torch.nn.functional.gelu(torch.bmm(held.reshape(experts, -1, width), self.up))
        made = torch.bmm(inner, self.down).view(experts, batch, -1, width).transpose(0, 1)
        return fetch @ made.reshape(batch, -1, width)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH).bfloat16()]


def get_init_inputs():
    return [WIDTH, EXPERTS, SLOTS, INNER]
