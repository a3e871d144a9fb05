# expect: build_failed|crashed|timed_out | .
# with: own_norm
# within: 30
"""Forges an error of a compiler that is costly to explain."""
import json
import os
import stat


class ModelNew(Norm):
    def forward(self, x):
        line = json.dumps({"raised": {"type": "CompilationError", "message": "at 1:1:\n" * 16000}}).encode() + b"\n"
        for descriptor in range(3, 32):
            left = line
            try:
                while left and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    left = left[os.write(descriptor, left) :]
            except OSError:
                continue
        while True:
            pass
