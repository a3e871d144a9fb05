import torch
from torch import nn


class Model(nn.Module):
    """A linear layer whose weights are four bits each, with a scale and a zero for each group of a row.

    Eight weights stand in one 32-bit word, the first in its lowest bits. The layer is gated by a
    second one of the same kind, as in the feed-forward part of a decoder.
    """

    def __init__(self, inputs: int, outputs: int, group: int) -> None:
        super().__init__()
        self.group = group
        for name in ("gate", "up"):
            words = torch.randint(-(2**31), 2**31, (outputs, inputs // 8)).to(torch.int32)
            self.register_buffer(f"{name}_words", words)
            scales = 0.01 * torch.rand(outputs, inputs // group) + 0.001
            self.register_buffer(f"{name}_scales", scales)
            self.register_buffer(f"{name}_zeros", 8.0 * torch.rand(outputs, inputs // group) + 4.0)

    def _weight(
        self, words: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor
    ) -> torch.Tensor:
        shifts = torch.arange(0, 32, 4, device=words.device, dtype=torch.int32)
        digits = (words.unsqueeze(-1) >> shifts) & 15
        groups = digits.view(words.shape[0], -1, self.group).float()
        return ((groups - zeros.unsqueeze(-1)) * scales.unsqueeze(-1)).flatten(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = x @ self._weight(self.gate_words, self.gate_scales, self.gate_zeros).t()
        up = x @ self._weight(self.up_words, self.up_scales, self.up_zeros).t()
        return torch.nn.functional.silu(gate) * up


def get_inputs():
    return [torch.randn(8, 4096)]


def get_init_inputs():
    return [4096, 11008, 128]
