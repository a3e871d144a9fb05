import itertools

import pytest

from search.sandbox.seccomp import program

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, REFUSE, NO_SYSTEM_CALL, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000


def run(
    code: list[tuple[int, int, int, int]], arch: int, number: int, arguments: dict[int, int]
) -> int:
    """Interpret the filter as the kernel does."""
    accumulator = at = 0
    while True:
        operation, yes, no, operand = code[at]
        at += 1
        if operation == 0x20:
            known = {
                0: number,
                4: arch,
                **{16 + 8 * place: value & 0xFFFFFFFF for place, value in arguments.items()},
                **{20 + 8 * place: value >> 32 for place, value in arguments.items()},
            }
            accumulator = known.get(operand, 0)
        elif operation == 0x15:
            at += yes if accumulator == operand else no
        elif operation == 0x45:
            at += yes if accumulator & operand else no
        else:
            assert operation == 0x06
            return operand


@pytest.mark.parametrize(
    ("machine", "socket", "fork", "execve", "clone", "kill", "read"),
    [("x86_64", 41, 57, 59, 56, 62, 0), ("aarch64", 198, None, 221, 220, 129, 63)],
)
def test_a_runner_stays_one_process_without_a_network(
    machine: str, socket: int, fork: int | None, execve: int, clone: int, kill: int, read: int
) -> None:
    code = program(single=True, pid=77, machine=machine)
    arch = ARCH[machine]
    for number in filter(None, (socket, fork, execve)):
        assert run(code, arch, number, {}) == REFUSE
    assert run(code, arch, read, {}) == ALLOW
    assert run(code, arch, clone, {0: 0x11}) == REFUSE
    assert run(code, arch, clone, {0: 0x11 | 0x10000}) == ALLOW
    assert run(code, arch, clone, {0: 0x11 | 0x10000 | 0x4000}) == REFUSE
    assert run(code, arch, 435, {}) == NO_SYSTEM_CALL
    assert run(code, arch, kill, {0: 77}) == ALLOW
    assert run(code, arch, kill, {0: 78}) == REFUSE


@pytest.mark.parametrize(
    ("machine", "signalfd4", "timer"), [("x86_64", 289, 222), ("aarch64", 74, 107)]
)
def test_a_stopped_runner_leaves_nothing_that_works_for_it(
    machine: str, signalfd4: int, timer: int
) -> None:
    for number in (signalfd4, timer):
        assert (
            run(program(single=True, pid=77, machine=machine), ARCH[machine], number, {}) == REFUSE
        )
        driven = program(single=True, pid=77, devices=True, machine=machine)
        assert (
            run(driven, ARCH[machine], number, {}) == ALLOW
        )  # CUDA's driver has timers and watchers


@pytest.mark.parametrize(
    ("machine", "fallocate", "madvise"), [("x86_64", 285, 28), ("aarch64", 47, 233)]
)
def test_a_runner_makes_no_holes_in_memory_that_the_judge_reads(
    machine: str, fallocate: int, madvise: int
) -> None:
    code = program(single=True, pid=77, machine=machine)
    assert run(code, ARCH[machine], fallocate, {0: 3, 1: 3}) == REFUSE
    for advice in (9, 21, 25):
        assert run(code, ARCH[machine], madvise, {2: advice}) == REFUSE
    for advice in (4, 8, 14):  # what allocators ask for: DONTNEED, FREE, HUGEPAGE
        assert run(code, ARCH[machine], madvise, {2: advice}) == ALLOW


def test_a_builder_may_run_the_compiler_but_has_no_network() -> None:
    code = program(single=False, pid=77, machine="x86_64")
    assert run(code, ARCH["x86_64"], 59, {}) == ALLOW
    assert run(code, ARCH["x86_64"], 41, {}) == REFUSE


def test_another_architectures_calls_and_the_x32_numbers_do_not_slip_through() -> None:
    code = program(single=True, pid=77, machine="x86_64")
    assert run(code, 0x40000003, 1, {}) == KILL
    assert run(code, ARCH["x86_64"], 0x40000000 | 41, {}) == NO_SYSTEM_CALL


def test_dumpability_cannot_be_given_up_to_hide_from_the_judge() -> None:
    code = program(single=True, pid=77, machine="x86_64")
    assert run(code, ARCH["x86_64"], 157, {0: 4}) == REFUSE
    assert run(code, ARCH["x86_64"], 157, {0: 15}) == ALLOW


@pytest.mark.parametrize(("machine", "prlimit"), [("x86_64", 302), ("aarch64", 261)])
def test_limits_can_be_read_and_only_ones_own(machine: str, prlimit: int) -> None:
    code = program(single=True, pid=77, machine=machine)
    assert run(code, ARCH[machine], prlimit, {0: 0, 2: 0, 3: 1 << 40}) == ALLOW
    assert run(code, ARCH[machine], prlimit, {0: 0, 2: 4096}) == REFUSE
    assert run(code, ARCH[machine], prlimit, {0: 0, 2: 7 << 32}) == REFUSE
    assert run(code, ARCH[machine], prlimit, {0: 78, 2: 0}) == REFUSE


@pytest.mark.parametrize(("machine", "ioctl"), [("x86_64", 16), ("aarch64", 29)])
def test_a_gpus_driver_has_commands_of_its_own(machine: str, ioctl: int) -> None:
    for devices, expected in ((False, REFUSE), (True, ALLOW)):
        code = program(single=True, pid=77, devices=devices, machine=machine)
        assert run(code, ARCH[machine], ioctl, {0: 5, 1: 0xC020462A}) == expected
        assert run(code, ARCH[machine], ioctl, {0: 5, 1: 0x8901}) == REFUSE
        assert run(code, ARCH[machine], ioctl, {0: 5, 1: 0x5401}) == ALLOW


@pytest.mark.parametrize(
    ("machine", "openat", "openat2"), [("x86_64", 257, 437), ("aarch64", 56, 437)]
)
def test_a_file_is_emptied_by_nobody_who_may_only_read_it(
    machine: str, openat: int, openat2: int
) -> None:
    code = program(single=True, pid=77, machine=machine)
    assert run(code, ARCH[machine], openat, {2: 0o1000}) == REFUSE
    assert run(code, ARCH[machine], openat, {2: 0o1000 | 1}) == ALLOW
    assert run(code, ARCH[machine], openat, {2: 0}) == ALLOW
    assert run(code, ARCH[machine], openat2, {}) == NO_SYSTEM_CALL


def test_every_jump_stays_inside_the_program() -> None:
    for machine, devices in itertools.product(ARCH, (False, True)):
        code = program(single=True, pid=1, devices=devices, machine=machine)
        assert all(
            at + 1 + max(yes, no) < len(code) for at, (_, yes, no, _) in enumerate(code[:-1])
        )
