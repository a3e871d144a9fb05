# expect: wrong|refused
# task: table
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.rows = nn.Embedding(rows, width)
        self.first = nn.Linear(width, 4 * width)
        self.second = nn.Linear(4 * width, width)
        with torch.no_grad():
            self.table = [self.answers()]

    def answers(self):
        return self.second(torch.relu(self.first(self.rows.weight))).clone()

    def forward(self, places):
        return self.table[0][places]
