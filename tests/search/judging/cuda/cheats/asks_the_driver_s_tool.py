# expect: crashed | PermissionError|FileNotFoundError
# with: own_norm
"""Starts the program that could raise the clocks of the device; it only asks for them here."""
import subprocess


class ModelNew(Norm):
    def forward(self, x):
        subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv"], check=True)
        return own_norm(x, self.norm)
