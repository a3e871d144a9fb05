"""Numbers in the front matter of a library that contradict each other: in a record, and between records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb.records.lint import LintFault
from kb.records.schema import Document, TargetRecord

# Published peaks are rounded, and tensor peaks are quoted at a lower clock than the boost.
PEAK_AGREEMENT = 0.10
_PER_UNIT = (
    "registers_per_sm", "registers_per_thread", "shared_memory_per_sm", "shared_memory_per_block",
    "threads_per_sm", "warps_per_sm", "blocks_per_sm", "threads_per_block",
    "vector_registers_per_cu", "shared_memory_per_cu", "waves_per_simd", "simds_per_cu",
)  # fmt: skip


def figure_faults(documents: Sequence[Document]) -> Iterator[LintFault]:
    """Yield the numbers that contradict each other."""
    targets = [d for d in documents if isinstance(d.record, TargetRecord)]
    for document in targets:
        assert isinstance(document.record, TargetRecord)
        for message in (*_peaks(document.record), *_limits(document.record)):
            yield _contradiction(document, message)
    yield from _siblings(targets)
    for document in documents:
        for message in _evidence(document):
            yield _contradiction(document, message)


def _contradiction(document: Document, message: str) -> LintFault:
    return LintFault(kind="contradiction", path=document.path, message=message)


def _peaks(record: TargetRecord) -> Iterator[str]:
    for dtype, per_cycle in record.flops_per_cycle.items():
        if dtype not in record.peak:
            yield f"flops_per_cycle has {dtype}, peak has not: give both"
            continue
        if record.clock is None:
            yield f"flops_per_cycle has {dtype}, but clock is null: leave out what follows from it"
            continue
        computed, stated = record.units * record.clock * per_cycle, record.peak[dtype]
        if abs(computed - stated) > PEAK_AGREEMENT * stated:
            yield (
                f"peak {dtype} is {stated:.4g} but units x clock x flops_per_cycle is"
                f" {computed:.4g}: more than {PEAK_AGREEMENT:.0%} apart"
            )


def _limits(record: TargetRecord) -> Iterator[str]:
    limits = record.limits
    warps, threads = limits.get("warps_per_sm"), limits.get("threads_per_sm")
    if warps and threads and warps * record.simd_width != threads:
        lanes = f"{warps} warps of {record.simd_width} lanes"
        yield f"limits: {lanes} are not {threads} threads_per_sm"
    for inner, outer in (
        ("shared_memory_per_block", "shared_memory_per_sm"),
        ("shared_memory_per_block", "shared_memory_per_cu"),
        ("threads_per_block", "threads_per_sm"),
        ("threads_per_block", "threads_per_cu"),
    ):
        if inner in limits and outer in limits and limits[inner] > limits[outer]:
            yield f"limits: {inner} {limits[inner]} is more than {outer} {limits[outer]}"


def _siblings(targets: Sequence[Document]) -> Iterator[LintFault]:
    """Devices of one architecture whose units would have different limits."""
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for document in targets:
        record = document.record
        assert isinstance(record, TargetRecord)
        if record.device != "gpu":
            continue
        for name in _PER_UNIT:
            if name not in record.limits:
                continue
            known = first.setdefault(
                (record.architecture, name), (record.name, record.limits[name])
            )
            if known[1] != record.limits[name]:
                yield _contradiction(
                    document,
                    f"limits.{name} is {record.limits[name]}, {known[0]} of the same architecture"
                    f" ({record.architecture}) has {known[1]}",
                )


def _evidence(document: Document) -> Iterator[str]:
    for evidence in getattr(document.record, "evidence", ()):
        before, after = evidence.before, evidence.after
        if evidence.outcome == "won" and after is None:
            yield f"evidence on {evidence.task!r} won without a time after"
        elif evidence.outcome == "won" and after >= before:
            yield f"evidence on {evidence.task!r} won, but took {before:g} s before and {after:g} after"
        elif evidence.outcome == "lost" and after is not None and after < before * 0.97:
            yield f"evidence on {evidence.task!r} lost, but took {before:g} s before and {after:g} after"
