import torch
from torch import nn


class Model(nn.Module):
    """Selective state-space recurrence: a step size, an input and an output map for every moment."""

    def __init__(self, channels: int, states: int) -> None:
        super().__init__()
        rates = torch.arange(1, states + 1, dtype=torch.float32).repeat(channels, 1)
        self.log_rates = nn.Parameter(rates.log())
        self.skip = nn.Parameter(torch.ones(channels))

    def forward(
        self, x: torch.Tensor, delta: torch.Tensor, inward: torch.Tensor, outward: torch.Tensor
    ) -> torch.Tensor:
        rates = -torch.exp(self.log_rates)
        step = torch.nn.functional.softplus(delta)
        state = x.new_zeros(x.shape[0], x.shape[2], rates.shape[1])
        answers = []
        for t in range(x.shape[1]):
            decay = torch.exp(step[:, t, :, None] * rates)
            state = decay * state + (step[:, t] * x[:, t])[..., None] * inward[:, t, None, :]
            answers.append((state * outward[:, t, None, :]).sum(-1))
        return torch.stack(answers, dim=1) + x * self.skip


def get_inputs():
    return [
        torch.randn(2, 61, 200),
        torch.randn(2, 61, 200),
        torch.randn(2, 61, 16),
        torch.randn(2, 61, 16),
    ]


def get_init_inputs():
    return [200, 16]
