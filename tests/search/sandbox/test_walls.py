"""What works outside the sandbox is refused inside: real processes, the real kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

# argv: a file of the user, the parent's process id.
PRELUDE = """
import ctypes, fcntl, mmap, os, platform, resource, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
target, parent = sys.argv[1], int(sys.argv[2])
path, here, one, other = target.encode(), -100, *socket.socketpair()

def call(x86, arm, *arguments):
    number = x86 if platform.machine() == 'x86_64' else arm
    longs = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(ctypes.c_long(number), *longs) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def opened():
    return os.open(target, os.O_RDONLY)

# Memory whose address has zeros in its lower half.
far = libc.mmap(ctypes.c_void_p(7 << 32), ctypes.c_size_t(4096), 3, 0x32, -1, ctypes.c_long(0))
assert far == 7 << 32
"""
ENTER = """
from search.sandbox.sandbox import Cell, enter, missing
cell = Cell(single=True, readable=(target,), writable=(), memory=1 << 30, cpu_seconds=9, file_bytes=1 << 20,
            devices={devices!r})
assert not missing(enter(cell))
"""
TO_A_FILE = {
    "chmod": "os.chmod(target, 0o644)",
    "fchmod": "os.fchmod(opened(), 0o644)",
    "fchmodat2": "call(452, 452, here, path, 0o644, 0)",
    "chown": "os.chown(target, os.getuid(), os.getgid())",
    "fchown": "os.fchown(opened(), os.getuid(), os.getgid())",
    "lchown": "os.lchown(target, os.getuid(), os.getgid())",
    "fchownat": "call(260, 54, here, path, os.getuid(), os.getgid(), 0)",
    "utimensat": "os.utime(target, (1, 1))",
    "utimensat of what is open": "os.utime(opened(), (1, 1))",
    "setxattr": "os.setxattr(target, 'user.note', b'2')",
    "lsetxattr": "os.setxattr(target, 'user.note', b'2', follow_symlinks=False)",
    "fsetxattr": "os.setxattr(opened(), 'user.note', b'2')",
    "setxattrat": "call(463, 463, here, path, 0, b'user.note', struct.pack('=QII', far, 1, 0), 16)",
    "removexattr": "os.removexattr(target, 'user.old')",
    "lremovexattr": "os.removexattr(target, 'user.old', follow_symlinks=False)",
    "fremovexattr": "os.removexattr(opened(), 'user.old')",
    "removexattrat": "call(466, 466, here, path, 0, b'user.old')",
    "file_setattr": "call(469, 469, here, path, struct.pack('=QIIII', 0x40, 0, 0, 0, 0), 24, 0)",
    "flags by ioctl": "fcntl.ioctl(opened(), 0x40086602, struct.pack('=q', 0x40))",
    "truncate": "os.truncate(target, 0)",
    "opening to read, emptying": "os.open(target, os.O_RDONLY | os.O_TRUNC)",
    "inotify": "call(254, 27, libc.inotify_init1(0), path, 0x20)",
    "lease": "fcntl.fcntl(opened(), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
}
TO_OTHERS = {
    "limits of the parent": "resource.prlimit(parent, resource.RLIMIT_CPU, (9, 9))",
    "limits by a pointer with zeros below": "struct.pack_into('=QQ', (ctypes.c_char * 16).from_address(far), 0, "
    "*[2**64 - 1] * 2); call(302, 261, parent, resource.RLIMIT_CPU, ctypes.c_void_p(far), None)",
    "limits of the parent, only read": "resource.prlimit(parent, resource.RLIMIT_CPU)",
    "its own limits by such a pointer": "struct.pack_into('=QQ', (ctypes.c_char * 16).from_address(far), 0, "
    "1 << 40, 1 << 40); call(302, 261, 0, resource.RLIMIT_FSIZE, ctypes.c_void_p(far), None)",
    "a core of its own": "call(157, 167, 62, 1, 0, 0, 0)",
    "F_SETOWN": "fcntl.fcntl(one, fcntl.F_SETOWN, parent)",
    "F_SETOWN_EX": "fcntl.fcntl(one, 15, struct.pack('=ii', 1, parent))",
    "F_SETSIG": "fcntl.fcntl(one, 10, 9)",
    "FIOSETOWN": "fcntl.ioctl(one, 0x8901, struct.pack('=i', parent))",
    "SIOCSPGRP": "fcntl.ioctl(one, 0x8902, struct.pack('=i', parent))",
    "FIOASYNC": "fcntl.ioctl(one, 0x5452, struct.pack('=i', 1))",
    "shared memory's removal": "assert (n := libc.shmget(0, 4096, 0o1600)) < 0 or not libc.shmctl(n, 0, None); "
    "call(31, 195, n, 0, None) if n < 0 else None",
    "messages' removal": "n = libc.msgget(0, 0o1600); call(71, 187, n, 0, None)",
    "semaphores' removal": "n = libc.semget(0, 1, 0o1600); call(66, 191, n, 0, 0, None)",
}
# Kernels before 6.17 have no file_setattr, before 6.13 no setxattrat; not every file system has flags, nor every
# processor cores that are shared.
LACKING = (
    "Function not implemented", "Inappropriate ioctl", "Operation not supported", "Invalid argument", "No such device",
)  # fmt: skip


def _run(
    folder: Path, statement: str, *, confined: bool, devices: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    target = folder / "users"
    target.write_text("x")
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys; os.setxattr(sys.argv[1], 'user.old', b'1')",
            target,
        ],
        check=True,
    )
    code = PRELUDE + (ENTER.format(devices=devices) if confined else "") + statement
    # Its parent for the time: what it gets away with happens to that process.
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        return subprocess.run(
            [sys.executable, "-c", code, str(target), str(parent.pid)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.parametrize("devices", [(), ("/dev/null",)], ids=["processor", "gpu"])
@pytest.mark.parametrize("name", [*TO_A_FILE, *TO_OTHERS])
def test_files_and_processes_of_the_user_are_out_of_reach(
    tmp_path: Path, name: str, devices: tuple[str, ...]
) -> None:
    inside = _run(tmp_path, (TO_A_FILE | TO_OTHERS)[name], confined=True, devices=devices)
    assert "Operation not permitted" in inside.stderr, inside


@pytest.mark.parametrize("name", [*TO_A_FILE, *TO_OTHERS])
def test_the_same_works_outside_the_sandbox(tmp_path: Path, name: str) -> None:
    outside = _run(tmp_path, (TO_A_FILE | TO_OTHERS)[name], confined=False)
    if any(word in outside.stderr for word in LACKING):
        pytest.skip(outside.stderr.strip().splitlines()[-1])
    assert outside.returncode == 0, outside.stderr


def test_on_a_processor_no_hole_is_made_in_memory_that_is_shared(tmp_path: Path) -> None:
    hole = (
        "shared = mmap.mmap(-1, 8192); start = ctypes.addressof(ctypes.c_char.from_buffer(shared)); "
        "call(28, 233, ctypes.c_void_p(start), 4096, 9)"
    )
    inside = _run(tmp_path, hole, confined=True)
    assert "Operation not permitted" in inside.stderr, inside
    outside = _run(tmp_path, hole, confined=False)
    assert outside.returncode == 0, outside.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "assert not os.isatty(opened())",
        "assert open(target).read() == 'x'",
        "open('/dev/null', 'w').write('x')",
        "mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE)",
        "resource.getrlimit(resource.RLIMIT_CPU)",
        "one.setblocking(False)",
        "os.kill(os.getpid(), 0)",
        "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    ],
)
@pytest.mark.parametrize("devices", [(), ("/dev/null",)], ids=["processor", "gpu"])
def test_what_a_kernel_needs_is_left(
    tmp_path: Path, statement: str, devices: tuple[str, ...]
) -> None:
    inside = _run(tmp_path, statement, confined=True, devices=devices)
    assert inside.returncode == 0, inside.stderr


def test_on_a_processor_the_limit_holds_shared_memory_too(tmp_path: Path) -> None:
    assert _run(tmp_path, "mmap.mmap(-1, 1 << 20)", confined=True).returncode == 0
    assert _run(tmp_path, "mmap.mmap(-1, 5 << 30)", confined=True).returncode != 0


def test_a_runner_is_the_first_to_end_where_memory_is_short(tmp_path: Path) -> None:
    line = "print(open('/proc/self/oom_score_adj').read())"
    assert _run(tmp_path, line, confined=True).stdout.strip() == "1000"
    assert _run(tmp_path, line, confined=False).stdout.strip() != "1000"
