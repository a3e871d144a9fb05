"""What the shipped records say in words agrees with the figures of their front matter.

A row of a target's table tells what the record has, and a sentence that names one device claims no more of
it. A figure that is too low passes: "reached 3.1 TB/s" is a fair sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from kb.config import shipped_docs
from kb.records.front_matter import split_template
from kb.records.library import load_library
from kb.records.schema import Document, TargetRecord, parse_record

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
_OTHER_MEMORY = re.compile(
    r"cache|\bL[123]\b|LDS|shared memory|infinity|link|fabric|tensor memory|SRAM|registers", re.I
)
_DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16", "float8", "float4", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
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
    Claim(
        label=re.compile(r"^(HBM|GDDR|LPDDR|DDR|memory|unified memory|bandwidth)"),
        suffix="B/s",
        value=lambda target: target.bandwidth,
        what="bandwidth",
    ),
    Claim(label=re.compile(r"^L2\b"), suffix="B", value=_cache("l2"), what="caches.l2.bytes"),
    Claim(label=re.compile(r"clock"), suffix="Hz", value=lambda target: target.clock, what="clock"),
    Claim(
        label=re.compile(r"^(SMs|compute units|Xe-cores|GPU cores|TensorCores|units)\b"),
        suffix="",
        value=lambda target: target.units,
        what="units",
    ),
    Claim(
        label=re.compile(r"^registers\b"),
        suffix="",
        value=_limit("registers_per_sm"),
        what="limits.registers_per_sm",
    ),
    Claim(
        label=re.compile(r"^resident\b"),
        suffix="",
        value=_limit("threads_per_sm"),
        what="limits.threads_per_sm",
    ),
)


def prose_faults(documents: Sequence[Document]) -> list[str]:
    """Return what the texts of records tell otherwise than a target's front matter."""
    targets = {d.record.name: d.record for d in documents if isinstance(d.record, TargetRecord)}
    found = []
    for document in documents:
        record = document.record
        told = list(_table(record, document.body)) if isinstance(record, TargetRecord) else []
        found += [f"{document.path}: {one}" for one in (*told, *_text(document, targets))]
    return found


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


TARGET = """---
kind: target
title: A small device
name: small
vendor: acme
architecture: a1
device: cpu
languages: [cpp]
units: 4
clock: 2.0e+9
simd_width: 256
peak: {float32: 256.0e+9}
bandwidth: 50.0e+9
sources: [a manual]
---
## Figures

| figure | value | source |
| --- | --- | --- |
"""
IDEA = """---
kind: idea
title: Do less
category: memory access
---
## How

"""


def told(row: str = "", text: str = "") -> list[str]:
    target = parse_record(f"{TARGET}{row}\n", "targets/small.md")
    return prose_faults([target, parse_record(f"{IDEA}{text}\n", "ideas/less.md")])


def test_the_shipped_records_say_what_their_front_matter_says() -> None:
    assert prose_faults(load_library(shipped_docs())) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("| memory | 60 GB/s | published |", "tells 6e+10, bandwidth is 5e+10"),
        ("| clock | 3 GHz | published |", "tells 3e+09, clock is 2e+09"),
        ("| float32 | 512 GFLOP/s | published |", "tells 5.12e+11, peak.float32 is 2.56e+11"),
        (
            "| machine balance, float32 | 9 FLOP a byte | computed |",
            "peak.float32 / bandwidth is 5.12",
        ),
        ("| units | 8 | published |", "tells 8, units is 4"),
    ],
)
def test_a_table_that_contradicts_the_front_matter_is_found(row: str, said: str) -> None:
    (line,) = told(row)
    assert line.startswith("targets/small.md: the table's")
    assert said in line


@pytest.mark.parametrize(
    "row",
    [
        "| memory | two channels, 50 GB/s; a desktop has 25 GB/s | published |",
        "| float32 per core | 64 GFLOP/s | computed |",
        "| float32, reached | 200 GFLOP/s | measured |",
        "| machine balance, float32 | 5 FLOP a byte | computed |",
    ],
)
def test_a_table_that_agrees_or_tells_something_else_is_fine(row: str) -> None:
    assert told(row) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "On the small, 90 GB/s were reached.",
            "says of small 9e+10 bytes/s, its record has 5e+10",
        ),
        ("The small does 2 TFLOP/s.", "says of small 2e+12 FLOP/s"),
        ("The small has 12 compute units.", "says of small 12 units, its record has 4"),
    ],
)
def test_a_text_that_tells_more_of_a_device_than_its_record_is_found(text: str, said: str) -> None:
    (line,) = told(text=text)
    assert said in line


def test_a_cache_may_be_faster_than_memory() -> None:
    assert told(text="The cache of the small gives 400 GB/s.") == []
