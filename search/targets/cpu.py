"""The processor: what the machine says of itself, and which record describes it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.records.schema import Document, TargetRecord

_SYS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a machine says of its processor.

    Attributes:
        flags: instruction sets, as the kernel names them.
        cores: that this process may use.
        caches: bytes by level ("l1d", "l2", "l3"), one instance each.
        max_clock: Hz, None where the kernel does not say.
    """

    vendor: str
    name: str
    family: int | None
    model: int | None
    flags: frozenset[str]
    cores: int
    caches: dict[str, int] = field(default_factory=dict)
    max_clock: float | None = None

    @property
    def last_level(self) -> int:
        """Bytes of the greatest cache, 32 MiB where the kernel does not say."""
        return max(self.caches.values(), default=32 << 20)


def read_facts() -> Facts:
    """Read the facts of this machine."""
    lines = _cpuinfo(Path("/proc/cpuinfo"))
    family, model = lines.get("cpu family"), lines.get("model")
    return Facts(
        vendor=lines.get("vendor_id") or lines.get("CPU implementer") or platform.machine(),
        name=lines.get("model name", platform.processor() or platform.machine()),
        family=int(family) if family and family.isdigit() else None,
        model=int(model) if model and model.isdigit() else _part(lines.get("CPU part")),
        flags=frozenset((lines.get("flags") or lines.get("Features") or "").split()),
        cores=len(os.sched_getaffinity(0)),
        caches=_caches(),
        max_clock=_clock(lines),
    )


def _part(text: str | None) -> int | None:
    """Return Arm's number of a core, which its kernel writes in hexadecimal."""
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


def _cpuinfo(path: Path) -> dict[str, str]:
    """Return the first processor's entries."""
    found: dict[str, str] = {}
    try:
        text = path.read_text()
    except OSError:
        return found
    for line in text.split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        found[key.strip()] = value.strip()
    return found


def _caches() -> dict[str, int]:
    sizes: dict[str, int] = {}
    for index in sorted((_SYS / "cpu0" / "cache").glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = (index / "level").read_text().strip()
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        matched = re.fullmatch(r"(\d+)([KMG]?)", size)
        if matched and kind != "Instruction":
            scale = {"": 0, "K": 10, "M": 20, "G": 30}[matched[2]]
            sizes["l1d" if level == "1" else f"l{level}"] = int(matched[1]) << scale
    return sizes


def _clock(lines: dict[str, str]) -> float | None:
    try:
        return float((_SYS / "cpu0/cpufreq/cpuinfo_max_freq").read_text()) * 1e3
    except (OSError, ValueError):
        told = lines.get("cpu MHz")
        return float(told) * 1e6 if told else None


def free_memory() -> int:
    """Return how many bytes the machine can give without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def match_target(documents: Sequence[Document], facts: Facts) -> Document:
    """Return the record that describes the processor most specifically.

    Raises:
        ConfigError: no record fits, or none is there.
    """
    ranked = [
        (score, document)
        for document in documents
        if document.record.kind == "target" and document.record.device == "cpu"
        if (score := _fit(document.record, facts)) is not None
    ]
    if not ranked:
        raise ConfigError(
            f"no target record describes this processor ({facts.vendor} family {facts.family} model {facts.model}): "
            "name one with target:, or add hardware_docs/targets/<vendor>/<name>.md"
        )
    return max(ranked, key=lambda pair: (pair[0], pair[1].name))[1]


def _fit(record: TargetRecord, facts: Facts) -> tuple[int, int] | None:
    """Return how specifically `record` describes the machine, None where it does not."""
    match = record.match
    if match.gpu_name is not None or not set(match.cpu_flags) <= facts.flags:
        return None
    score = 0
    for wanted, found in ((match.cpu_vendor, facts.vendor), (match.cpu_family, facts.family)):
        if wanted is not None:
            if wanted != found:
                return None
            score += 1
    if match.cpu_models:
        if facts.model not in match.cpu_models:
            return None
        score += 1
    if not score and not match.cpu_flags:
        return None
    return score, len(match.cpu_flags)


def resolve(name: str, documents: Sequence[Document]) -> Document:
    """Return the target record called `name`, or with that alias.

    Raises:
        ConfigError: there is none; the message lists the known ones.
    """
    known: dict[str, Document] = {}
    for document in documents:
        if document.record.kind == "target":
            for alias in (*document.record.aliases, document.record.name, document.name):
                known.setdefault(alias.lower(), document)
    found = known.get(name.lower())
    if found is None:
        names = sorted({d.record.name for d in known.values() if d.record.kind == "target"})
        close = get_close_matches(name.lower(), known, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ConfigError(
            f"unknown target {name!r}{hint}: known are auto, {', '.join(names) or 'no others'}"
        )
    return found
