import os
import struct
import subprocess
import sys
import threading
import time

import pytest

from search.profilers.sampling import Sampled, _records


@pytest.fixture
def permitted() -> None:
    watched = Sampled(os.getpid(), 1_000_000)
    if not watched.start():
        pytest.skip(f"the kernel does not sample here: {watched.why}")
    watched.close()


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.usefixtures("permitted")
def test_samples_have_the_time_at_which_they_were_taken() -> None:
    watched = Sampled(os.getpid(), 1_000_000)
    assert watched.start()
    spin(0.02)
    start = time.perf_counter_ns()
    spin(0.05)
    end = time.perf_counter_ns()
    spin(0.02)
    found = watched.between(start, end)
    assert found
    assert all(start <= sample.moment <= end for sample in found)
    assert all(sample.moment > end for sample in watched.between(0, 1 << 62))
    watched.close()
    assert not watched.works


@pytest.mark.usefixtures("permitted")
def test_threads_that_start_later_are_sampled_too() -> None:
    watched = Sampled(os.getpid(), 1_000_000)
    assert watched.start()
    start = time.perf_counter_ns()
    born = threading.Thread(target=spin, args=(0.1,))
    born.start()
    born.join()
    assert len(watched.between(start, time.perf_counter_ns())) >= 10
    watched.close()


@pytest.mark.usefixtures("permitted")
def test_code_that_is_mapped_meanwhile_is_told() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys, mmap; sys.stdin.readline(); mmap.mmap(-1, 4096, prot=7); sys.stdin.readline()"],
        stdin=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdin is not None
    try:
        time.sleep(0.5)
        watched = Sampled(child.pid, 1_000_000)
        assert watched.start()
        child.stdin.write(b"\n")
        child.stdin.flush()
        end = time.monotonic() + 10
        mapped: list[object] = []
        while not mapped and time.monotonic() < end:
            time.sleep(0.01)
            mapped = [s for s in watched.between(0, 1 << 62) if s.address is None]
        assert mapped
        watched.close()
    finally:
        child.kill()
        child.communicate()


def test_what_the_kernel_forbids_is_said() -> None:
    watched = Sampled(1 << 22, 1_000_000)
    assert not watched.start()
    assert watched.why
    assert watched.between(0, 1 << 62) == []
    watched.close()


def test_records_are_read_up_to_one_that_is_not_whole() -> None:
    sample = struct.pack("<IHHQIIQ", 9, 0, 32, 0x1234, 1, 2, 77)
    lost = struct.pack("<IHHQQ", 2, 0, 24, 5, 9)
    assert _records(sample + lost) == [(9, sample[8:]), (2, lost[8:])]
    assert _records(sample + bytes(8)) == [(9, sample[8:])]
