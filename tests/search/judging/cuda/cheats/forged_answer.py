# expect: wrong|crashed|timed_out|refused forged-report | .
# with: own_norm
"""Tells the judge through every descriptor that the answer is there, then says no more."""
import json
import os


class ModelNew(Norm):
    def forward(self, x):
        told = {
            "type": "Tensor", "shape": list(x.shape), "dtype": "torch.float32", "device": "cuda",
            "strides": list(x.stride()),
        }
        line = json.dumps({"outputs": [told], "single": True, "copied": True}).encode() + b"\n"
        for descriptor in range(3, 32):
            try:
                os.write(descriptor, line)
            except OSError:
                continue
        while True:
            pass
