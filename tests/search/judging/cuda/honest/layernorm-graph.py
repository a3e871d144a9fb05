# interpreter: no, it captures a graph
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_row(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    mean = tl.sum(value, 0) / columns
    gap = tl.where(kept, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(gap * gap, 0) / columns + eps)
    gain = tl.load(weight + at, mask=kept)
    shift = tl.load(bias + at, mask=kept)
    tl.store(y + row * columns + at, gap * scale * gain + shift, mask=kept)


class ModelNew(nn.Module):
    """Copies every input into the graph's buffer and every answer out of it."""

    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)
        self.graph = None

    def launch(self):
        rows, columns = self.x.shape
        norm_row[(rows,)](
            self.x, self.norm.weight, self.norm.bias, self.y, columns, self.norm.eps,
            BLOCK=triton.next_power_of_2(columns),
        )

    def forward(self, x):
        if self.graph is None:
            self.x, self.y = x.clone(), torch.empty_like(x)
            self.launch()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.launch()
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
