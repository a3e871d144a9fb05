# expect: wrong | state_dict
# task: linear
import gc

import torch
from torch import nn


class ModelNew(nn.Module):
    """Has none: it says that it has, and looks them up."""

    def __init__(self, k, n):
        super().__init__()
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        self.given = [runner._arena.state]

    def state_dict(self, *_, **__):
        return self.given[0]

    def load_state_dict(self, state, *_, **__):
        self.mine = [{name: value.clone() for name, value in state.items()}]

    def forward(self, x):
        state = self.mine[0]
        return torch.relu(torch.addmm(state["linear.bias"], x, state["linear.weight"].t()))
