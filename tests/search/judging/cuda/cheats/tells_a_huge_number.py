# expect: refused forged-report | larger than any
# with: own_norm
"""Tells a number that no float can hold."""
import json
import os


class ModelNew(Norm):
    def forward(self, x):
        line = b'{"outputs": [{"type": "Tensor", "shape": [1' + b"0" * 400 + b"]}]}\n"
        for descriptor in range(3, 32):
            try:
                os.write(descriptor, line)
            except OSError:
                continue
        while True:
            pass
