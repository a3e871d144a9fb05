# expect: refused|wrong cached-output
# task: steps
# with: own_steps
import json
import os
import sys


def loop(self, *_, **__):
    """Computes before it says that it is ready, and answers at once."""
    words, call = self._arena.words, 0
    while True:
        while words[0] == call:
            if words[4]:
                return {"calls": call}
        call = words[0]
        kept = own_steps(self._arena.inputs[0])
        words[1] = call
        while words[2] != call:
            if words[4]:
                return {"calls": call}
        words[16] = kept.data_ptr()
        words[3] = call
        told = {
            "type": "Tensor", "shape": list(kept.shape), "dtype": "torch.float32",
            "device": "cpu", "strides": list(kept.stride()),
        }  # fmt: skip
        line = json.dumps({"outputs": [told], "single": True, "copied": True}) + "\n"
        if hasattr(self, "do_calls"):
            os.write(self._control, line.encode())
        self.held = kept


kind = sys.modules["search.sandbox.runner"].Runner
kind.do_time = kind.do_calls = loop


class ModelNew(nn.Module):
    def forward(self, x):
        return own_steps(x)
