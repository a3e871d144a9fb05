# expect: crashed|passed no-gain | PermissionError|FileNotFoundError|OSError
# with: own_norm
"""Writes into the folder where extensions are built, for others to import."""
import pathlib

from torch.utils import cpp_extension


class ModelNew(Norm):
    def forward(self, x):
        folder = cpp_extension.get_default_build_root()
        (pathlib.Path(folder) / "own_norm" / "poison").mkdir(parents=True, exist_ok=True)
        return own_norm(x, self.norm)
