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
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "setrlimit": (160, 164), "setsid": (112, 157), "setpgid": (109, 154),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), 435
_KILL, _TGKILL, _PRLIMIT = (62, 129), (234, 131), (302, 261)
_FCNTL, _PRCTL = (72, 25), (157, 167)
_CLONE_THREAD = 0x10000
_SET_OWNER, _SET_OWNER_EX = 8, 15  # fcntl commands that direct signals at another process
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
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


def program(*, single: bool, pid: int, machine: str | None = None) -> list[Instruction]:
    """Return the filter as (code, jump if true, jump if false, operand).

    Args:
        single: also refuse new processes, programs, affinities and signals to others.
        pid: the process that the filter is for; it may signal itself.
        machine: as ``platform.machine()`` says, by default this one's.

    Raises:
        KeyError: the architecture is unknown.
    """
    machine = machine or platform.machine()
    column = list(_AUDIT_ARCH).index(machine) if machine in _AUDIT_ARCH else None
    if column is None:
        raise KeyError(machine)
    refuse = _ERRNO | errno.EPERM
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_ANY_BIT, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for numbers in (_SHARED | _SINGLE if single else _SHARED).values():
        number = numbers[column]
        if number is not None:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    if single:
        code += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
        code += _when(_CLONE[column], 0, (_ANY_BIT, 1, 0, _CLONE_THREAD), refuse)
        code += _when(_KILL[column], 0, (_EQUAL, 1, 0, pid), refuse)
        code += _when(_TGKILL[column], 0, (_EQUAL, 1, 0, pid), refuse)
        code += _when(_PRLIMIT[column], 2, (_EQUAL, 1, 0, 0), refuse)
        for command in (_SET_OWNER, _SET_OWNER_EX):
            code += _when(_FCNTL[column], 1, (_EQUAL, 0, 1, command), refuse)
        for option in (_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE):
            code += _when(_PRCTL[column], 0, (_EQUAL, 0, 1, option), refuse)
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _when(number: int, argument: int, test: Instruction, verdict: int) -> list[Instruction]:
    """Return `verdict` for call `number` unless `test` of the argument's low word jumps over it."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, 16 + 8 * argument),
        test,
        (_RETURN, 0, 0, verdict),
        (_LOAD, 0, 0, _NUMBER),
    ]


def install(*, single: bool) -> None:
    """Filter this process and its children from now on.

    Raises:
        OSError: the kernel has no filters, or the architecture is unknown.
    """
    try:
        code = program(single=single, pid=os.getpid())
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
