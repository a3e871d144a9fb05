# small: ROWS=9 CLASSES=101
import torch
from torch import nn

ROWS, CLASSES = 4096, 3000


class Model(nn.Module):
    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(x, labels, reduction="none")


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))]
