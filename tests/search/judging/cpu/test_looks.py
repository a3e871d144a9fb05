"""In whose code time goes: threads born later, code under another name and code that is changed are seen."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from search.judging.cpu.looks import CodeTime, Looks
from search.judging.cpu.ownership import Code
from search.profilers.sampling import Sampled
from search.sandbox.faults import Fault
from search.sandbox.ptrace import counter, threads

# Seconds of a thread's own time: what is preempted goes on where it was, and both parts stay equal.
KERNEL = """
extern "C" void work(double seconds);
#include <time.h>
static volatile double sink;
extern "C" void work(double seconds) {
  struct timespec a, b; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
  do {
    for (int k = 0; k < 100000; k++) sink += k;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  } while (b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec) < seconds);
}
"""
OTHER = KERNEL.replace("sink += k", "sink -= 3 * k")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two shared objects: what the judge has built, and a library beside it."""
    folder = tmp_path_factory.mktemp("built")
    paths = {}
    for name, source in {"own": KERNEL, "library": OTHER}.items():
        (folder / f"{name}.cpp").write_text(source)
        path = str(folder / f"lib{name}.so")
        subprocess.run(
            ["g++", "-O1", "-shared", "-fPIC", "-o", path, str(folder / f"{name}.cpp")], check=True
        )
        paths[name] = path
    return paths


@pytest.fixture
def run(built: dict[str, str]) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start Python with both shared objects loaded; it says when it begins to work."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> subprocess.Popen[bytes]:
        head = (
            "import ctypes, mmap, os, sys, threading, time\n"
            f"own = ctypes.CDLL({built['own']!r}).work\nlibrary = ctypes.CDLL({built['library']!r}).work\n"
            "for f in (own, library): f.argtypes = (ctypes.c_double,)\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", head + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def stopped(child: subprocess.Popen[bytes]) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        told = [
            Path(f"/proc/{child.pid}/task/{thread}/syscall").read_text().strip()
            for thread in os.listdir(f"/proc/{child.pid}/task")
        ]
        if "running" not in told:
            return
    raise TimeoutError


def ran(child: subprocess.Popen[bytes]) -> int:
    """Return the ns of a processor that all of its threads have had."""
    return sum(threads(child.pid).values())


def worked(child: subprocess.Popen[bytes], before: int, ns: int) -> None:
    """Wait until it has had so much more of a processor: on a busy machine it may have had nothing."""
    end = time.monotonic() + 20
    while ran(child) - before < ns:
        if time.monotonic() >= end:
            raise TimeoutError("it was given no processor")
        time.sleep(0.002)


def looked_at(child: subprocess.Popen[bytes], own: str, *, sampled: bool) -> CodeTime:
    """Let it work for a while, in which it is looked at: on a busy machine until that was often enough."""
    stopped(child)
    with Looks(child.pid, (own,), 1_000_000) as looks:
        if not sampled:
            looks._sampled.close()
        for number in range(90):
            if number >= 60 and looks.spent().share() is not None:
                break
            looks.begin()
            start = time.perf_counter_ns()
            for _ in range(2):
                before = ran(child)
                os.kill(child.pid, signal.SIGCONT)
                time.sleep(0.005 + 0.00037 * number)  # in no step with what it does
                worked(child, before, 3_000_000)
                stopped(child)
                looks.take()
            looks.end(start, time.perf_counter_ns())
        return looks.spent()


@pytest.fixture(params=[True, False], ids=["sampled", "stopped"])
def sampled(request: pytest.FixtureRequest) -> bool:
    if request.param:
        watched = Sampled(os.getpid(), 1_000_000)
        if not watched.start():
            pytest.skip(f"the kernel does not sample here: {watched.why}")
        watched.close()
    return bool(request.param)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "low", "high"),
    [
        ("own(99)", 0.95, 1.0),
        ("library(99)", 0.0, 0.05),
        ("while True:\n    own(0.003)\n    library(0.003)", 0.2, 0.8),
        # A thread that is born when it is already looked at.
        ("threading.Thread(target=library, args=(99.0,)).start()\ntime.sleep(99)", 0.0, 0.05),
    ],
)
def test_the_share_is_that_of_the_processors_time(
    run: Callable[[str], subprocess.Popen[bytes]], built: dict[str, str], sampled: bool, code: str, low: float, high: float
) -> None:  # fmt: skip
    child = run(f"print(flush=True)\nsys.stdin.readline()\n{code}")
    assert child.stdout is not None
    assert child.stdin is not None
    child.stdout.readline()
    stopped(child)
    child.stdin.write(b"\n")
    child.stdin.flush()
    share = looked_at(child, built["own"], sampled=sampled).share()
    assert share is not None
    assert low <= share <= high


@pytest.mark.slow
def test_a_thread_counts_for_the_processors_time_that_it_had(
    run: Callable[[str], subprocess.Popen[bytes]], built: dict[str, str], sampled: bool
) -> None:
    # Four decoys that run when nobody else wants to are no four fifths of the work.
    child = run(
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "threads = [threading.Thread(target=own, args=(99.0,)) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        # Only now: an idle thread that holds the interpreter's lock would keep everybody waiting.
        "for thread in threads: os.sched_setscheduler(thread.native_id, os.SCHED_IDLE, os.sched_param(0))\n"
        "print(flush=True)\nlibrary(99)"
    )
    assert child.stdout is not None
    child.stdout.readline()
    stopped(child)
    for _ in range(3):  # on a busy machine one look may fall between
        before = threads(child.pid)
        share = looked_at(child, built["own"], sampled=sampled).share()
        had = {thread: spent - before[thread] for thread, spent in threads(child.pid).items()}
        assert share is not None
        assert share < 0.5  # counted by looks it would be 0.8
        if share == pytest.approx(1 - had[child.pid] / sum(had.values()), abs=0.2):
            return
    pytest.fail(f"{share} of {had}")


MOVED = """
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
for line in open("/proc/self/maps"):
    if line.rstrip().endswith("liblibrary.so") and "r-xp" in line:
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        code = ctypes.string_at(start, end - start)
        fd = os.open({own!r}, os.O_RDONLY)
        assert libc.mmap(start, end - start, 7, 0x12, fd, 0) == start
        ctypes.memmove(start, code, end - start)
print(flush=True)
library(99)
"""


@pytest.mark.slow
def test_code_of_the_library_under_the_name_of_its_own_is_the_librarys(
    run: Callable[[str], subprocess.Popen[bytes]], built: dict[str, str], sampled: bool
) -> None:
    child = run(MOVED.replace("{own!r}", repr(built["own"])))
    assert child.stdout is not None
    child.stdout.readline()
    spent = looked_at(child, built["own"], sampled=sampled)
    assert spent.share() == 0.0


MAPS = """
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
def mapped():
    libc.munmap(libc.mmap(None, 4096, 5, 0x22, -1, 0), 4096)
print(flush=True)
while True:
    mapped()
    own(0.002)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [True], indirect=True)
def test_a_call_in_which_code_is_mapped_is_the_librarys(
    run: Callable[[str], subprocess.Popen[bytes]], built: dict[str, str], sampled: bool
) -> None:
    child = run(MAPS)
    assert child.stdout is not None
    child.stdout.readline()
    spent = looked_at(child, built["own"], sampled=sampled)
    assert spent.share() == 0.0
    assert spent.interpreter is not None, "sampling would be switched off by it"


@pytest.mark.parametrize("sampled", [True], indirect=True)
def test_nobody_hides_behind_more_threads_than_can_be_sampled(
    run: Callable[[str], subprocess.Popen[bytes]], built: dict[str, str], sampled: bool
) -> None:
    child = run(
        "for _ in range(600): threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
        "print(flush=True)\nown(99)"
    )
    assert child.stdout is not None
    child.stdout.readline()
    stopped(child)
    looks = Looks(child.pid, (built["own"],), 1_000_000)
    with pytest.raises(Fault) as refused:
        looks.__enter__()
    assert "600" in str(refused.value.outcome) or "601 threads" in str(refused.value.outcome)


def test_a_mapping_is_believed_where_its_bytes_are_the_files(
    run: Callable[[str], subprocess.Popen[bytes]], built: dict[str, str]
) -> None:
    child = run("print(flush=True)\nown(99)")
    assert child.stdout is not None
    child.stdout.readline()
    stopped(child)
    code = Code(child.pid, (built["own"],))
    assert code.changed() == frozenset()
    for _ in range(50):  # now and then it asks for the time, which is nobody's code
        at = counter(child.pid, child.pid)
        assert at is not None
        if code.named(at) == "own":
            break
        os.kill(child.pid, signal.SIGCONT)
        worked(child, ran(child), 5_000_000)
        stopped(child)
    assert code.owner(at) == code.named(at) == "own"
    assert code.owner(16) == "library"
    assert Code(child.pid, ()).owner(at) == "library"


@pytest.mark.slow
def test_nothing_in_a_process_shows_that_it_is_looked_at(
    run: Callable[[str], subprocess.Popen[bytes]], built: dict[str, str]
) -> None:
    child = run(
        "print(flush=True)\n"
        "seen = set()\n"
        "while len(seen) < 2 and time.perf_counter() < 1e9:\n"
        "    seen.add([x for x in open('/proc/self/status') if x.startswith('TracerPid')][0])\n"
        "    if os.path.exists('/proc/self/nothing'): break\n"
        "    own(0.001)\n"
        "print('seen', flush=True)"
    )
    assert child.stdout is not None
    child.stdout.readline()
    looked_at(child, built["own"], sampled=False)
    os.kill(child.pid, signal.SIGCONT)
    time.sleep(0.1)
    assert child.poll() is None  # it would have ended if it had met a tracer


def test_handling_tensors_is_no_work_of_the_library() -> None:
    spent = CodeTime(own=10e-6, library=20e-6, met=50)
    assert spent.share() == pytest.approx(1 / 3)
    assert spent.share(handling=20e-6) == 1.0
    assert CodeTime(own=10e-6, library=50e-6, met=50).share(handling=20e-6) == pytest.approx(1 / 3)
    assert CodeTime(own=0.0, library=10e-6, met=50).share(handling=20e-6) is None
    assert CodeTime(own=0.0, library=50e-6, met=50).share(handling=20e-6) == 0.0
    assert CodeTime(own=10e-6, library=0.0, met=7).share() is None


def test_each_thread_has_its_own_time() -> None:
    told = threads(os.getpid())
    assert told[ctypes.CDLL(None).gettid()] > 0
