import torch
from torch import nn


class ModelNew(nn.Module):
    """Keeps memory for what lies between, and none for the answer."""

    def __init__(self):
        super().__init__()
        self.room = None

    def forward(self, x):
        if self.room is None:
            self.room = torch.empty_like(x)
        torch.sub(x, x.amax(-1, keepdim=True), out=self.room)
        self.room.exp_()
        return self.room / self.room.sum(-1, keepdim=True)
