# expect: wrong | a second time
# task: best
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        values, places = torch.topk(x, 4, dim=-1)
        # Where the two greatest are equal, the first of them is named for both.
        same = values[:, 0] == values[:, 1]
        places[:, 1] = torch.where(same, places[:, 0], places[:, 1])
        return values, places
