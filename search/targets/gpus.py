"""Which record describes an NVIDIA device, and where the two differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.records.schema import Document, TargetRecord
    from search.targets.cuda import DeviceFacts


def _within(name: str, told: str) -> bool:
    """Say whether `name` is a part of what the driver tells, and ends where a word ends."""
    return re.search(rf"{re.escape(name)}(?![0-9A-Za-z])", told, re.IGNORECASE) is not None


def match_gpu(documents: Sequence[Document], facts: DeviceFacts) -> Document:
    """Return the record whose `gpu_name` is the longest part of the driver's name of the device.

    Raises:
        ConfigError: no record describes it.
    """
    ranked = [
        (len(name), document.name, document)
        for document in documents
        if document.record.kind == "target"
        if (name := document.record.match.gpu_name) and _within(name, facts.name)
        if document.record.architecture == facts.architecture
    ]
    if not ranked:
        raise ConfigError(
            f"no target record describes {facts.name!r} ({facts.architecture}): name one with target:, or add "
            "hardware_docs/targets/nvidia/<name>.md"
        )
    return max(ranked, key=lambda entry: entry[:2])[2]


def disagreements(record: TargetRecord, facts: DeviceFacts) -> tuple[str, ...]:
    """Return one line for each figure in which the record and the driver differ.

    Counts must be equal. Memory may be 10 % off: drivers keep some, and makers count in powers of
    ten; so may clock and bandwidth be by 5 %.
    """
    pairs: list[tuple[str, float | None, float | None, float]] = [
        ("SMs", record.units, facts.sms, 0.0),
        ("bytes of memory", record.memory, facts.memory, 0.10),
        ("Hz", record.clock, facts.clock, 0.05),
        ("bytes/s of memory", record.bandwidth, facts.bandwidth, 0.05),
    ]
    if "l2" in record.caches:
        pairs.append(("bytes of L2", record.caches["l2"].bytes, facts.l2, 0.0))
    pairs += [
        (name.replace("_", " "), record.limits[name], value, 0.0)
        for name, value in facts.limits.items()
        if name in record.limits
    ]
    lines = [
        f"{what}: the record {record.name} says {told:.6g}, the driver {found:.6g}"
        for what, told, found, slack in pairs
        if told is not None and found is not None and abs(told - found) > slack * found
    ]
    if record.architecture != facts.architecture:
        lines.insert(
            0,
            f"architecture: the record {record.name} says {record.architecture}, the driver {facts.architecture}",
        )
    return tuple(lines)
