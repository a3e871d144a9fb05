# small: WORDS=20 WIDTH=32 TOKENS=13
import torch
from torch import nn

WORDS, WIDTH, TOKENS = 100, 256, 16384


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.rows = nn.Embedding(words, width)
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)

    def forward(self, tokens):
        return self.second(torch.relu(self.first(self.rows(tokens))))


def get_inputs():
    return [torch.randint(WORDS, (TOKENS,))]


def get_init_inputs():
    return [WORDS, WIDTH]
