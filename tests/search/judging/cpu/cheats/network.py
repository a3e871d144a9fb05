# expect: crashed | PermissionError
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        import socket

        socket.create_connection(("127.0.0.1", 9), 1)
