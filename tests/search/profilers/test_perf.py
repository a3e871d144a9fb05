from __future__ import annotations

import mmap
import subprocess
import sys

from search.profilers.perf import CounterReading, Counters, availability, per_call

PAGES = 2000


def touch() -> None:
    """Fault in pages of memory that nobody has touched."""
    size = PAGES * mmap.PAGESIZE
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for place in range(0, size, mmap.PAGESIZE):
            memory[place] = 1


def test_every_counter_is_counted_or_missing_with_a_reason() -> None:
    reading = availability()
    assert len(reading.counts) + len(reading.missing) == 9
    assert not set(reading.counts) & set(reading.missing)
    assert all(reading.missing.values())


def test_page_faults_are_counted_where_the_kernel_allows() -> None:
    with Counters(0) as counters:
        touch()
        reading = counters.read()
    if "page_faults" in reading.missing:
        assert "perf_event_paranoid" in reading.missing["page_faults"]
        return
    assert PAGES <= reading.counts["page_faults"] < 3 * PAGES
    assert per_call(reading, calls=2)["perf_page_faults"] >= PAGES / 2


def test_another_process_is_counted_by_its_pid() -> None:
    code = (
        "import mmap\ninput()\n"
        f"memory = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE)\n"
        "memory.madvise(mmap.MADV_NOHUGEPAGE)\n"
        f"for place in range(0, {PAGES} * mmap.PAGESIZE, mmap.PAGESIZE): memory[place] = 1\n"
        "print('done', flush=True)\ninput()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with Counters(child.pid) as counters:
            child.stdin.write("\n")
            child.stdin.flush()
            child.stdout.readline()
            reading = counters.read()
        child.stdin.write("\n")
    assert reading.counts.get("page_faults", PAGES) >= PAGES


def test_a_process_that_is_gone_is_a_reason_for_each_counter() -> None:
    with Counters(2**22 + 7) as counters:
        reading = counters.read()
    assert reading.counts == {}
    assert len(reading.missing) == 9


def test_an_outcome_keeps_events_of_one_call_and_no_cycles() -> None:
    reading = CounterReading(counts={"cycles": 100.0, "cache_misses": 30.0}, missing={})
    assert per_call(reading, calls=10) == {"perf_cache_misses": 3.0}
