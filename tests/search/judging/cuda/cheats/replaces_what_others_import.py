# expect: crashed | PermissionError|FileNotFoundError|OSError
# with: own_norm
"""Writes a module beside Triton, where every later candidate would import it."""
import pathlib


class ModelNew(Norm):
    def forward(self, x):
        pathlib.Path(triton.__file__).with_name("poison.py").write_text("")
        return own_norm(x, self.norm)
