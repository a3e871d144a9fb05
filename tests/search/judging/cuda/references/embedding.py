# small: WORDS=50 WIDTH=40 TOKENS=13
import torch
from torch import nn

WORDS, WIDTH, TOKENS = 20_000, 512, 8192


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)

    def forward(self, tokens, position):
        return self.table(tokens) + position


def get_inputs():
    return [torch.randint(WORDS, (TOKENS,)), torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WORDS, WIDTH]
