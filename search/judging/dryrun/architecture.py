"""GPU architectures that kernels are compiled for, with the limits of a device that has each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kb.errors import ConfigError, TaskError
from kb.records.schema import Document, TargetRecord

_NVIDIA = re.compile(r"sm_(\d+)a?")
_AMD = re.compile(r"gfx[0-9a-f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What compiling for a device needs to know of it.

    Attributes:
        name: as records write it: ``sm_90``, ``gfx942``.
        backend: Triton's word for the vendor's software: ``cuda`` or ``hip``.
        warp: threads of a warp or wavefront.
        device: the title of the device whose limits these are.
        units, memory: of that device, for programs that ask.
        limits: of the device's record, see `search.profilers.static_resources.occupancy`.
    """

    name: str
    backend: str
    warp: int
    device: str
    units: int
    memory: int
    limits: Mapping[str, int]

    @property
    def capability(self) -> int:
        """The number in an NVIDIA architecture's name, 0 for other vendors."""
        matched = _NVIDIA.fullmatch(self.name)
        return int(matched[1]) if matched else 0

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a block may have."""
        return self.limits["shared_memory_per_block"]

    def values(self) -> dict[str, Any]:
        """Return it in JSON's values."""
        return {**asdict(self), "limits": dict(self.limits)}


def architecture_of(record: TargetRecord) -> Architecture:
    """Return the architecture of a target.

    Raises:
        TaskError: it is no GPU that kernels can be compiled for.
    """
    name = record.architecture
    nvidia = _NVIDIA.fullmatch(name)
    if record.device != "gpu" or not (nvidia or _AMD.fullmatch(name)):
        raise TaskError(
            f"target {record.name!r} ({name}) is no GPU that kernels can be compiled for: expected "
            "an architecture like sm_90 or gfx942"
        )
    return Architecture(
        name=f"sm_{nvidia[1]}" if nvidia else name,
        backend="cuda" if nvidia else "hip",
        warp=record.simd_width,
        device=record.title,
        units=record.units,
        memory=record.memory or 0,
        limits=dict(record.limits),
    )


def known_architectures(documents: Iterable[Document]) -> dict[str, Architecture]:
    """Return every architecture that a GPU record describes, NVIDIA's first, the older first.

    Where several devices share one, the record that comes first in the alphabet gives the limits.
    """
    records = [d.record for d in documents if isinstance(d.record, TargetRecord)]
    found: dict[str, Architecture] = {}
    for record in sorted(records, key=lambda record: record.name):
        # Others are described for their owners; no compiler of theirs is at hand here.
        if record.device == "gpu" and "triton" in record.languages:
            architecture = architecture_of(record)
            found.setdefault(architecture.name, architecture)
    ordered = sorted(found.values(), key=lambda a: (a.backend, a.capability, a.name))
    return {architecture.name: architecture for architecture in ordered}


def choose_architectures(
    names: Iterable[str], documents: Iterable[Document]
) -> tuple[Architecture, ...]:
    """Return the architectures called `names`; a target's name stands for its own.

    Raises:
        ConfigError: one is unknown; the message lists the known ones.
    """
    documents = list(documents)
    known = known_architectures(documents)
    targets = {d.record.name: d.record for d in documents if isinstance(d.record, TargetRecord)}
    chosen = []
    for name in names:
        plain = re.sub(r"^(sm_\d+)a$", r"\1", name)
        if plain in known:
            chosen.append(known[plain])
        elif name in targets and targets[name].device == "gpu":
            chosen.append(architecture_of(targets[name]))
        else:
            raise ConfigError(
                f"unknown architecture {name!r}: known are {', '.join(known)}, and the names of "
                "GPU targets"
            )
    return tuple(chosen)
