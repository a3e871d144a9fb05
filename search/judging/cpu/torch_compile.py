"""torch.compile as a baseline on a processor."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from search.judging.cpu.timing import one_thread


def compiled(model: Any, inputs: Sequence[Any], folder: Path) -> Callable[..., Any] | str:
    """Return `model` compiled for one thread and called on `inputs`; why not, where it does not work.

    Args:
        folder: for the compiler's cache.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    # Worker processes would outlive the preparation and disturb the timing.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    try:
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")
            import torch._inductor.config as inductor

            inductor.compile_threads = 1
            found: Callable[..., Any] = torch.compile(model, dynamic=False)
            found(*inputs)
            found(*inputs)
    except Exception as error:  # noqa: BLE001 - the compiler may fail in any way; its failure is told
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    return found
