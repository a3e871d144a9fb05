"""What Python costs around a kernel on a processor whose caches are cold, as the judge times it.

    python benchmarks/cold_calls.py [--rounds 100]

Each forward is called once after more memory was read than the caches hold, in turns with the others, on one
core; the least and the median of its calls count.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from kb.native import load_cpp, method
from search.judging.cpu.timing import Evictor, one_thread
from search.sandbox.shared_memory import keep_freed_memory

SOURCE = """
extern "C" { void Py_IncRef(void*); }
extern "C" void nothing(const void*, void*) {}
extern "C" void* entry(void* none, void* const*, long) { Py_IncRef(none); return none; }
"""
WIDTH = 4097


class Bias(torch.nn.Module):
    """A module with a parameter; its forward is given."""

    def __init__(self, forward: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(WIDTH))
        self._forward = forward

    def forward(self, x: torch.Tensor) -> Any:
        """Do what was given."""
        return self._forward(self, x)


def forwards(kept: torch.Tensor) -> dict[str, Callable[[Any, torch.Tensor], Any]]:
    """Return what is compared, by name; all but the first do something besides."""
    library = load_cpp(SOURCE)
    plain, quick = library.nothing, method(library.entry)
    plain.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    plain.restype = None
    return {
        "an empty forward": lambda _, x: x,
        "x.data_ptr()": lambda _, x: x.data_ptr(),
        "x.contiguous()": lambda _, x: x.contiguous(),
        "self.bias": lambda self, _: self.bias,
        'self._parameters["bias"]': lambda self, _: self._parameters["bias"],
        "torch.empty_like(x)": lambda _, x: torch.empty_like(x),
        "torch.empty(shape, dtype=...)": lambda _, x: torch.empty((1, WIDTH), dtype=torch.float32),
        "two addresses, ctypes": lambda _, x: plain(x.data_ptr(), kept.data_ptr()),
        "two addresses, method": lambda _, x: quick(x.data_ptr(), kept.data_ptr()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    keep_freed_memory()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    x, evict = torch.randn(1, WIDTH), Evictor(128 << 20)
    modules = {name: Bias(what) for name, what in forwards(torch.empty(1, WIDTH)).items()}
    taken: dict[str, list[float]] = {name: [] for name in modules}
    with one_thread():
        for _ in range(rounds):
            for name, module in modules.items():
                evict()
                time.sleep(0.001)
                began = time.perf_counter_ns()
                module(x)
                taken[name].append((time.perf_counter_ns() - began) / 1e3)
    (first, *_) = taken.values()
    print("| forward | least | median | median beyond an empty one |\n|---|---|---|---|")
    for name, found in taken.items():
        beyond = statistics.median(found) - statistics.median(first)
        print(
            f"| {name} | {min(found):.0f} us | {statistics.median(found):.0f} us | {beyond:.0f} us |"
        )


if __name__ == "__main__":
    main()
