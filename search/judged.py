"""Tasks and targets as every judge reads them: plain values, which also cross to a machine with torch alone.

The models that check a user's files need pydantic, which a judging machine need not have. What
they come to once checked is written here with the same names of attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kb.records.schema import TargetRecord
    from search.task import Task

Device = Literal["cpu", "cuda"]  # that candidates are timed on


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTolerances:
    """Explicit tolerances: ``|candidate - truth| <= absolute + relative * |truth|``."""

    absolute: float
    relative: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSettings:
    """What a judge reads of a task's settings."""

    precision: str | JudgedTolerances
    library: str
    special_values: bool
    packing: str = "allowed"
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTask:
    """What a judge reads of a task.

    Attributes:
        reference: where the reference program lies on the judging machine.
        identity: the task's own, see `search.task.Task.identity`.
        kernels: name and source of each kernel that is a baseline.
    """

    name: str
    reference: Path
    source: str
    identity: str
    settings: JudgedSettings
    kernels: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> Path:
        """The file that stands for the task here: the reference itself."""
        return self.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMatch:
    """How a device is recognised as a target."""

    cpu_vendor: str | None
    cpu_family: int | None
    cpu_models: tuple[int, ...]
    cpu_flags: tuple[str, ...]
    gpu_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCache:
    """One level of the memory hierarchy."""

    bytes: int
    shared_by: str
    bandwidth: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTarget:
    """The figures of a target record, in SI units; the record's prose stays at home."""

    name: str
    vendor: str
    architecture: str
    device: str
    aliases: tuple[str, ...]
    match: JudgedMatch
    languages: tuple[str, ...]
    units: int
    clock: float | None
    simd_width: int
    flops_per_cycle: Mapping[str, float]
    peak: Mapping[str, float]
    bandwidth: float
    memory: int | None
    caches: Mapping[str, JudgedCache]
    limits: Mapping[str, int]


def plain_task(task: Task | JudgedTask) -> JudgedTask:
    """Return what a judge reads of `task`."""
    if isinstance(task, JudgedTask):
        return task
    precision = task.settings.precision
    return JudgedTask(
        name=task.name,
        reference=task.reference,
        source=task.source,
        identity=task.identity,
        settings=JudgedSettings(
            precision=precision
            if isinstance(precision, str)
            else JudgedTolerances(absolute=precision.absolute, relative=precision.relative),
            library=task.settings.library,
            special_values=task.settings.special_values,
            packing=task.settings.packing,
            baselines=task.settings.baselines,
        ),
        kernels=task.kernels,
    )


def plain_target(target: TargetRecord) -> JudgedTarget:
    """Return the figures of `target`."""
    return read_target(
        target.model_dump(mode="json", exclude={"kind", "title", "scope", "sources", "asked"})
    )


def write_task(task: JudgedTask) -> dict[str, Any]:
    """Return `task` as JSON values, without the place of its reference, which is each machine's own."""
    values = asdict(task)
    del values["reference"]
    return values


def read_task(values: Mapping[str, Any], reference: Path) -> JudgedTask:
    """Return the task that `write_task` wrote.

    Raises:
        TypeError, KeyError: the values are of another version.
    """
    rest = dict(values)
    settings = dict(rest.pop("settings"))
    if isinstance(settings["precision"], Mapping):
        settings["precision"] = JudgedTolerances(**settings["precision"])
    settings["baselines"] = tuple(settings.get("baselines", ()))
    rest["kernels"] = tuple((name, source) for name, source in rest.get("kernels", ()))
    return JudgedTask(**rest, settings=JudgedSettings(**settings), reference=reference)


def read_target(values: Mapping[str, Any]) -> JudgedTarget:
    """Return the target whose figures stand in `values` as JSON has them.

    Raises:
        TypeError, KeyError: the values are of another version.
    """
    rest = dict(values)
    match = dict(rest.pop("match"))
    for name in ("cpu_models", "cpu_flags"):
        match[name] = tuple(match[name])
    caches = {name: JudgedCache(**cache) for name, cache in rest.pop("caches").items()}
    for name in ("aliases", "languages"):
        rest[name] = tuple(rest[name])
    return JudgedTarget(**rest, match=JudgedMatch(**match), caches=caches)
