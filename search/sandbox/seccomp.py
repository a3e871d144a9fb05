"""A seccomp filter that takes from a process what a kernel never needs.

The program is classic BPF over ``struct seccomp_data`` (kernel manual, seccomp(2) and
Documentation/userspace-api/seccomp_filter.rst): a list of refusals, everything else allowed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# System call numbers: x86_64, aarch64 (None where the architecture has no such call).
_SHARED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206),
    "sendmsg": (46, 211), "sendmmsg": (307, 269), "recvmsg": (47, 212),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272),
    "move_pages": (279, 239), "migrate_pages": (256, 238),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "bpf": (321, 280),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "quotactl": (179, 60), "syslog": (103, 116),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "fanotify_init": (300, 262), "personality": (135, 92),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
}  # fmt: skip
# A runner is one process that stays as it was made; a builder runs the compiler's processes.
_SINGLE: dict[str, tuple[int | None, int | None]] = {
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    # Landlock has no right for a file's mode, owner, times and attributes, nor, before its third
    # version, for its length: the owner of a file could change them wherever it lies.
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "file_setattr": (469, 469), "truncate": (76, 45),
    "inotify_add_watch": (254, 27),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "setrlimit": (160, 164), "setsid": (112, 157), "setpgid": (109, 154),
}  # fmt: skip
# What makes a signal to a process slow in its sender, or work for whoever has its processor while it is
# stopped: watchers of signals, timers, a wait for every processor. A GPU's driver needs some of them.
# setitimer is left: it is armed again only when its signal is taken, so once while a process is stopped. A hole in memory
# that it shares with the judge keeps the judge waiting until it is made, as do pages that are moved or put away.
_STOPPED: dict[str, tuple[int | None, int | None]] = {
    "signalfd": (282, None), "signalfd4": (289, 74), "epoll_create": (213, None), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "membarrier": (324, 283), "timer_create": (222, 107), "timer_settime": (223, 110),
    "timerfd_create": (283, 85), "timerfd_settime": (286, 86), "fallocate": (285, 47),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), 435
_KILL, _TGKILL, _PRLIMIT = (62, 129), (234, 131), (302, 261)
_FCNTL, _PRCTL, _IOCTL = (72, 25), (157, 167), (16, 29)
_MADVISE, _MADVISE_REFUSED = (28, 233), (9, 21, 25)  # MADV_REMOVE, MADV_PAGEOUT, MADV_COLLAPSE
_OPEN, _OPENAT, _OPENAT2 = (2, None), (257, 56), 437
_CLONE_THREAD, _CLONE_VFORK = 0x10000, 0x4000  # the latter waits as nothing but SIGKILL can end
# fcntl commands that direct signals (F_SETOWN, F_SETSIG, F_SETOWN_EX), or make others wait and
# tell of what they do (F_SETLEASE, F_NOTIFY).
_FCNTL_REFUSED = (8, 10, 15, 1024, 1026)
# What Python and C libraries ask of a file: is it a terminal, how wide, how much can be read,
# close-on-exec, non-blocking. All others may direct signals or change a file's attributes.
_IOCTL_ALLOWED = (0x5401, 0x5413, 0x541B, 0x5450, 0x5451, 0x5421)
# A device's driver has commands of its own. FIOSETOWN, SIOCSPGRP, FIOASYNC; those that set a
# file's flags, version, project and encryption, or seal it (fs-verity).
_IOCTL_REFUSED = (0x8901, 0x8902, 0x5452, 0x40086602, 0x40046602, 0x40087602, 0x40047602,
                  0x401C5820, 0x800C6613, 0x40806685)  # fmt: skip
_TRUNCATE, _ACCESS = 0x200, 3  # of open's flags; reading alone is 0
# The last keeps other programs off the other half of its core.
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SCHED_CORE = 1, 4, 62

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_REFUSE, _NO_SUCH_CALL = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
_NEXT, _STOP, _PASS = -1, -2, -3  # jumps: to the next test, to the refusal, past it
_NUMBER, _ARCH = 0, 4
_X32 = 0x40000000
_SECCOMP = (317, 277)
_SET_MODE_FILTER, _THREADS_TOO = 1, 1

Instruction = tuple[int, int, int, int]


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter)))


def program(
    *, single: bool, pid: int, devices: bool = False, machine: str | None = None
) -> list[Instruction]:
    """Return the filter as (code, jump if true, jump if false, operand).

    Args:
        single: also refuse new processes, programs, affinities, signals to others, and changes of a
            file's mode, owner, times and attributes; and, without a device, timers and watchers of signals.
        pid: the process that the filter is for; it may signal itself.
        devices: it uses a GPU, whose driver has commands of its own.
        machine: as ``platform.machine()`` says, by default this one's.

    Raises:
        KeyError: the architecture is unknown.
    """
    machine = machine or platform.machine()
    column = list(_AUDIT_ARCH).index(machine) if machine in _AUDIT_ARCH else None
    if column is None:
        raise KeyError(machine)
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_ANY_BIT, 0, 1, _X32), (_RETURN, 0, 0, _NO_SUCH_CALL)]
    refused = _SHARED | (_SINGLE if single else {}) | (_STOPPED if single and not devices else {})
    for numbers in refused.values():
        number = numbers[column]
        if number is not None:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    if single:
        code += _one_process(column, pid)
        code += _own_files_only(column, devices)
        if not devices:
            code += _unless(_MADVISE[column], [_low(2), *_none_of(_MADVISE_REFUSED)])
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _one_process(column: int, pid: int) -> list[Instruction]:
    """Refuse what makes another process, or reaches one."""
    code: list[Instruction] = [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _NO_SUCH_CALL)]
    threads = [(_ANY_BIT, _STOP, _NEXT, _CLONE_VFORK), (_ANY_BIT, _PASS, _NEXT, _CLONE_THREAD)]
    code += _unless(_CLONE[column], [_low(0), *threads])
    for call in (_KILL, _TGKILL):
        code += _unless(call[column], [_low(0), (_EQUAL, _PASS, _NEXT, pid)])
    # Only reading limits, only one's own: the pointer to new ones is null, in both of its words.
    zero = (_EQUAL, _NEXT, _STOP, 0)
    null = [_low(0), zero, _low(2), zero, _high(2), (_EQUAL, _PASS, _STOP, 0)]
    code += _unless(_PRLIMIT[column], null)
    code += _unless(_FCNTL[column], [_low(1), *_none_of(_FCNTL_REFUSED)])
    refused = (_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SCHED_CORE)
    return code + _unless(_PRCTL[column], [_low(0), *_none_of(refused)])


def _own_files_only(column: int, devices: bool) -> list[Instruction]:
    """Refuse what changes files past Landlock."""
    commands = _none_of(_IOCTL_REFUSED) if devices else _one_of(_IOCTL_ALLOWED)
    code = _unless(_IOCTL[column], [_low(1), *commands])
    # Where Landlock has no right to truncate, opening a file to read it could empty it.
    code += [(_EQUAL, 0, 1, _OPENAT2), (_RETURN, 0, 0, _NO_SUCH_CALL)]
    for call, argument in ((_OPEN, 1), (_OPENAT, 2)):
        if call[column] is not None:
            flags = [(_ANY_BIT, _NEXT, _PASS, _TRUNCATE), (_ANY_BIT, _PASS, _STOP, _ACCESS)]
            code += _unless(call[column], [_low(argument), *flags])
    return code


def _low(argument: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * argument)


def _high(argument: int) -> Instruction:
    return (_LOAD, 0, 0, 20 + 8 * argument)


def _none_of(values: tuple[int, ...]) -> list[Instruction]:
    last = len(values) - 1
    return [
        (_EQUAL, _STOP, _PASS if at == last else _NEXT, value) for at, value in enumerate(values)
    ]


def _one_of(values: tuple[int, ...]) -> list[Instruction]:
    last = len(values) - 1
    return [
        (_EQUAL, _PASS, _STOP if at == last else _NEXT, value) for at, value in enumerate(values)
    ]


def _unless(number: int | None, tests: list[Instruction]) -> list[Instruction]:
    """Refuse call `number` unless `tests` of its arguments, whose jumps are named, let it pass."""
    assert number is not None
    size = len(tests)
    code: list[Instruction] = [(_EQUAL, 0, size + 2, number)]
    for at, (operation, yes, no, operand) in enumerate(tests):
        # From the instruction after this one: the refusal comes after the tests, then what follows.
        places = {_NEXT: 0, _STOP: size - at - 1, _PASS: size - at}
        code.append((operation, places.get(yes, yes), places.get(no, no), operand))
    return [*code, (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, _NUMBER)]


def install(*, single: bool, devices: bool = False) -> None:
    """Filter this process and its children from now on; the arguments are `program`'s.

    Raises:
        OSError: the kernel has no filters, or the architecture is unknown.
    """
    try:
        code = program(single=single, devices=devices, pid=os.getpid())
    except KeyError as error:
        raise OSError(errno.ENOSYS, f"no table of system calls for {error}") from error
    array = (_Filter * len(code))(*(_Filter(*instruction) for instruction in code))
    wrapped = _Program(len(code), array)
    libc = ctypes.CDLL(None, use_errno=True)
    call = _SECCOMP[list(_AUDIT_ARCH).index(platform.machine())]
    arguments = (
        ctypes.c_uint(_SET_MODE_FILTER),
        ctypes.c_uint(_THREADS_TOO),
        ctypes.byref(wrapped),
    )
    if libc.syscall(ctypes.c_long(call), *arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
