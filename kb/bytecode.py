"""Keeps compiled Python where nothing else does, so that no process compiles torch again."""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

PREFIX = "PYTHONPYCACHEPREFIX"


def keep_bytecode() -> None:
    """Keep compiled modules in this user's cache, for this process and those that it starts.

    Images for containers often set ``PYTHONDONTWRITEBYTECODE`` and hold a torch that was never compiled. There each
    process that imports it compiles thousands of files: 7 s of 14 on one machine. A search starts many such processes.
    Where torch has its compiled files, or Python may write them beside it, nothing changes.
    """
    if sys.pycache_prefix is not None:
        return
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return
    beside = Path(cache_from_source(torch.origin))
    written = not sys.dont_write_bytecode and os.access(beside.parents[1], os.W_OK)
    if written or beside.exists():
        return
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    sys.pycache_prefix = os.environ[PREFIX] = str(Path(base) / "kb" / "python")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
