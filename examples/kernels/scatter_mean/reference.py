import torch
import torch.nn as nn


class Model(nn.Module):
    """Mean of the rows of each segment; the segments' numbers come in no order."""

    def __init__(self, segments):
        super().__init__()
        self.segments = segments

    def forward(self, x, segment):
        sums = torch.zeros(self.segments, x.shape[1], dtype=x.dtype).index_add(0, segment, x)
        ones = torch.ones(x.shape[0], dtype=x.dtype)
        counts = torch.zeros(self.segments, dtype=x.dtype).index_add(0, segment, ones)
        return sums / counts.clamp(min=1).unsqueeze(1)


def get_inputs():
    return [torch.randn(32768, 64), torch.randint(0, 1024, (32768,))]


def get_init_inputs():
    return [1024]
