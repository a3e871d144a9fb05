# expect: crashed | PermissionError
# with: own_norm
"""Opens a connection."""
import socket


class ModelNew(Norm):
    def forward(self, x):
        socket.create_connection(("127.0.0.1", 9), 1)
        return own_norm(x, self.norm)
