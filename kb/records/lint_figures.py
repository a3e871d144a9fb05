"""Numbers of a library that contradict each other: in a record, between records, in their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kb.records.lint import LintFault
from kb.records.schema import Document, TargetRecord, split_template

# Published peaks are rounded, and tensor peaks are quoted at a lower clock than the boost.
PEAK_AGREEMENT = 0.10
# Text rounds to two or three digits, and writes binary sizes as decimal ones.
TEXT_AGREEMENT = 0.06
_UNITS = {
    "TB/s": 1e12, "GB/s": 1e9, "PFLOP/s": 1e15, "TFLOP/s": 1e12, "GFLOP/s": 1e9, "POP/s": 1e15,
    "TOP/s": 1e12, "GHz": 1e9, "MHz": 1e6, "GB": 1e9, "MB": 2.0**20, "KB": 2.0**10, "MiB": 2.0**20,
    "KiB": 2.0**10, "bytes": 1.0, "FLOP a byte": 1.0,
}  # fmt: skip
_NUMBER = r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?"
_QUANTITY = re.compile(_NUMBER + r"\s*(" + "|".join(map(re.escape, _UNITS)) + r")(?![\w/])")
_BARE = re.compile(_NUMBER)
_ROW = re.compile(r"^\|([^|\n]+)\|([^|\n]+)\|([^|\n]+)\|\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n\s*\n|\n[-|#]")
_PER_UNIT = (
    "registers_per_sm", "registers_per_thread", "shared_memory_per_sm", "shared_memory_per_block",
    "threads_per_sm", "warps_per_sm", "blocks_per_sm", "threads_per_block",
    "vector_registers_per_cu", "shared_memory_per_cu", "waves_per_simd", "simds_per_cu",
)  # fmt: skip
_OTHER_MEMORY = re.compile(
    r"cache|\bL[123]\b|LDS|shared memory|infinity|link|fabric|tensor memory|SRAM|registers", re.I
)
_DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16", "float8", "float4", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureClaim:
    """A figure that a row of a target's table must tell, if it tells one in that unit at all."""

    label: re.Pattern[str]
    suffix: str  # of the units that count: "B/s", "Hz", …; empty for a bare number
    value: Callable[[TargetRecord], float | None]
    what: str


def _cache(level: str) -> Callable[[TargetRecord], float | None]:
    return lambda target: float(target.caches[level].bytes) if level in target.caches else None


def _limit(name: str) -> Callable[[TargetRecord], float | None]:
    return lambda target: target.limits.get(name)


_CLAIMS = (
    FigureClaim(
        label=re.compile(r"^(HBM|GDDR|LPDDR|DDR|memory|unified memory|bandwidth)"),
        suffix="B/s",
        value=lambda target: target.bandwidth,
        what="bandwidth",
    ),
    FigureClaim(label=re.compile(r"^L2\b"), suffix="B", value=_cache("l2"), what="caches.l2.bytes"),
    FigureClaim(
        label=re.compile(r"clock"), suffix="Hz", value=lambda target: target.clock, what="clock"
    ),
    FigureClaim(
        label=re.compile(r"^(SMs|compute units|Xe-cores|GPU cores|TensorCores|units)\b"),
        suffix="",
        value=lambda target: target.units,
        what="units",
    ),
    FigureClaim(
        label=re.compile(r"^registers\b"),
        suffix="",
        value=_limit("registers_per_sm"),
        what="limits.registers_per_sm",
    ),
    FigureClaim(
        label=re.compile(r"^resident\b"),
        suffix="",
        value=_limit("threads_per_sm"),
        what="limits.threads_per_sm",
    ),
)


def figure_faults(
    documents: Sequence[Document], beside: Sequence[Document] = ()
) -> Iterator[LintFault]:
    """Yield the numbers that contradict each other.

    Args:
        beside: records of another library, whose targets the texts may speak of.
    """
    targets = [d for d in documents if isinstance(d.record, TargetRecord)]
    for document in targets:
        assert isinstance(document.record, TargetRecord)
        for message in (
            *_peaks(document.record),
            *_limits(document.record),
            *_table(document.record, document.body),
        ):
            yield _contradiction(document, message)
    yield from _siblings(targets)
    described = [d.record for d in (*beside, *documents) if isinstance(d.record, TargetRecord)]
    records = {record.name: record for record in described}
    for document in documents:
        for message in (*_evidence(document), *_text(document, records)):
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


def _table(record: TargetRecord, body: str) -> Iterator[str]:
    """Rows of the table of figures that do not tell what the front matter says."""
    for label, value, source in _ROW.findall(body):
        label = label.strip()  # noqa: PLW2901 - the cell without its padding
        if "measured" in source or "per core" in label:
            continue
        for claim in _CLAIMS:
            stated = claim.value(record)
            if stated is None or not claim.label.search(label):
                continue
            told = _told(value, claim.suffix)
            if told and not any(_close(number, stated, TEXT_AGREEMENT) for number in told):
                listed = " or ".join(f"{number:g}" for number in told)
                yield f"the table's {label!r} tells {listed}, {claim.what} is {stated:g}"
        yield from _rates(record, label, value)


def _rates(record: TargetRecord, label: str, value: str) -> Iterator[str]:
    # "float16 with float32 accumulation" is about float16.
    kinds = label.partition(" with ")[0]
    dtypes = [d for d in _DTYPES if re.search(rf"\b{d}\b", kinds) and d in record.peak]
    balance = "balance" in label
    told = _told(value, "FLOP a byte" if balance else "OP/s")
    for dtype in dtypes if told else ():
        stated = record.peak[dtype] / (record.bandwidth if balance else 1)
        if not any(_close(number, stated, PEAK_AGREEMENT) for number in told):
            listed = " or ".join(f"{number:g}" for number in told)
            what = f"peak.{dtype} / bandwidth" if balance else f"peak.{dtype}"
            yield f"the table's {label!r} tells {listed}, {what} is {stated:.4g}"


def _told(text: str, suffix: str) -> list[float]:
    """Return the quantities of `text` in units that end so, in SI; bare numbers for no suffix."""
    if not suffix:
        return [_number(whole, part) for whole, part in _BARE.findall(text)]
    return [
        _number(whole, part) * _UNITS[unit]
        for whole, part, unit in _QUANTITY.findall(text)
        if (unit in ("GB", "MB", "KB", "MiB", "KiB", "bytes") if suffix == "B" else suffix in unit)
    ]


def _number(whole: str, part: str) -> float:
    return float(whole.replace(",", "") + part)


def _close(found: float, stated: float, tolerance: float) -> bool:
    return abs(found - stated) <= tolerance * max(abs(found), abs(stated))


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


def _text(document: Document, targets: Mapping[str, TargetRecord]) -> Iterator[str]:
    """Sentences that name one device and tell more of it than its record does."""
    text = re.sub(r"```.*?```", "", split_template(document.body)[0], flags=re.DOTALL)
    own = document.record.name if isinstance(document.record, TargetRecord) else None
    for sentence in _SENTENCE.split(text):
        named = [name for name in targets if _names(sentence, name)]
        if len(named) != 1 or named[0] == own:
            continue
        for wrong in _excess(sentence, targets[named[0]]):
            yield f"says of {named[0]} {wrong}"


def _names(sentence: str, name: str) -> bool:
    words = re.escape(name).replace("rtx", "RTX ?")
    return re.search(rf"(?<![\w-]){words}(?![\w-])", sentence, re.I) is not None


def _excess(sentence: str, target: TargetRecord) -> Iterator[str]:
    if not _OTHER_MEMORY.search(sentence):
        for rate in _told(sentence, "B/s"):
            if rate > target.bandwidth * (1 + TEXT_AGREEMENT):
                yield f"{rate:.4g} bytes/s, its record has {target.bandwidth:.4g}"
    most = max(target.peak.values(), default=0.0)
    for rate in _told(sentence, "FLOP/s"):
        if rate > most * (1 + PEAK_AGREEMENT):
            yield f"{rate:.4g} FLOP/s, the highest peak of its record is {most:.4g}"
    units = re.search(_NUMBER + r" (?:SMs|multiprocessors|compute units|Xe-cores)\b", sentence)
    if units and _number(units[1], "") != target.units:
        yield f"{units[1]} units, its record has {target.units}"
    size = re.search(_NUMBER + r" MB of L2|L2 (?:cache )?of " + _NUMBER + r" MB", sentence)
    if size and "l2" in target.caches:
        found = _number(size[1] or size[3], "") * 2**20
        if not _close(found, target.caches["l2"].bytes, TEXT_AGREEMENT):
            yield f"{found / 2**20:g} MB of L2, its record has {target.caches['l2'].bytes / 2**20:g}"
