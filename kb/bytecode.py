"""Keeps compiled Python where nothing else does, so that no process compiles torch again."""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from kb.config import Home

# A file that every program imports, and one that only torch.compile does: some processes keep what they import.
_FILES = ("__init__.py", "_inductor/compile_fx.py")


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
    folder = Path(torch.origin).parent
    if not sys.dont_write_bytecode and os.access(folder, os.W_OK):
        return
    files = [folder / file for file in _FILES]
    if all(Path(cache_from_source(str(file))).exists() for file in files if file.exists()):
        return
    kept = Home.find().cache / "python"
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(kept, os.W_OK):
        return
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(kept)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def options() -> list[str]:
    """Return what has an isolated Python (``-I``), which reads no environment, keep its modules as this one does."""
    if sys.pycache_prefix is not None:
        return ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    return ["-B"] if sys.dont_write_bytecode else []
