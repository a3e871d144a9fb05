"""Landlock: which files a process may read and write (kernel manual, landlock(7))."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on x86_64 and aarch64
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
# Rights that each version of the interface adds: 13 at first, then refer, truncate, device ioctls.
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_LATEST = (1 << 16) - 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def version() -> int:
    """Return the kernel's version of the interface.

    Raises:
        OSError: there is none.
    """
    return _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))


def restrict(readable: Iterable[str], writable: Iterable[str]) -> int:
    """Deny this process every file but those under the given paths; TCP and foreign signals too.

    Paths that do not exist are passed over. `no_new_privs` must have been set.

    Returns:
        The version of the interface.

    Raises:
        OSError: the kernel has no Landlock, or refuses.
    """
    abi = version()
    rights = _RIGHTS.get(abi, _LATEST)
    network = 3 if abi >= 4 else 0
    scoped = 3 if abi >= 6 else 0
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = _Ruleset(rights, network, scoped)
    ruleset = _call(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path in readable:
            _allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
        for path in writable:
            _allow(ruleset, path, rights)
        _call(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _FILE_RIGHTS
        rule = _Beneath(rights, parent)
        _call(
            _ADD,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(parent)
