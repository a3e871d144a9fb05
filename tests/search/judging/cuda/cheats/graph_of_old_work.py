# expect: refused|wrong cached-output | other inputs|differs
# with: own_norm
"""Replays a CUDA graph that reads the buffers of the first call, never the inputs at hand."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.graph = None

    def forward(self, x):
        if self.graph is None:
            self.x = x.clone()
            own_norm(self.x, self.norm)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = own_norm(self.x, self.norm)
        self.graph.replay()
        return self.y.clone()
