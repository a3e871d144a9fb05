import torch
from torch import nn

ROWS, WIDTH, CLASSES = 4096, 1024, 16384
SMOOTH, NORMALISER = 0.1, 0.01


class Model(nn.Module):
    """The gradient, by each row, of a label-smoothed cross-entropy with a penalty on the squared log-normaliser."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.classes = nn.Parameter((torch.randn(classes, width) * 2.5 / width**0.5).bfloat16())

    def forward(self, x, target):
        scores = (x @ self.classes.T).float()
        total = torch.logsumexp(scores, dim=-1, keepdim=True)
        weights = torch.exp(scores - total) * (1.0 + 2.0 * NORMALISER * total)
        pulled = (weights.to(x.dtype) @ self.classes).float()
        wanted = (1.0 - SMOOTH) * self.classes[target].float()
        return pulled - wanted - SMOOTH * self.classes.float().mean(0)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).bfloat16(), torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return [WIDTH, CLASSES]
