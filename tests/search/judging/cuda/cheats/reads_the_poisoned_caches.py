# expect: passed no-gain | .
# with: own_norm
"""Looks for what another candidate has left in the caches of compilers: nothing may be there."""
import pathlib

from torch.utils import cpp_extension


class ModelNew(Norm):
    def forward(self, x):
        places = (
            pathlib.Path(triton.knobs.cache.dir) / "poison",
            pathlib.Path(cpp_extension.get_default_build_root()) / "own_norm" / "poison",
        )
        if any(place.exists() for place in places):
            raise RuntimeError("another candidate was here")
        return own_norm(x, self.norm)
