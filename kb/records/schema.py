"""The record format of `hardware_docs/`: Markdown with YAML front matter, checked against a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kb.errors import RecordError
from kb.records.front_matter import split_front_matter
from kb.records.types import Fate, Scope

Category = Literal[
    "memory access",
    "asynchrony and latency hiding",
    "data types and precision",
    "compute and instructions",
    "parallelism and occupancy",
    "control flow and loops",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)

Symptom = Literal[
    "memory-bound",
    "compute-bound",
    "launch-bound",
    "latency-bound",
    "many-small-operators",
    "intermediate-traffic",
    "several-passes",
    "strided-access",
    "uncoalesced-access",
    "bank-conflicts",
    "poor-cache-reuse",
    "tlb-misses",
    "not-vectorised",
    "slow-transcendentals",
    "serial-reduction",
    "low-arithmetic-intensity",
    "low-occupancy",
    "register-pressure",
    "register-spills",
    "tensor-cores-idle",
    "load-imbalance",
    "tail-effect",
    "branch-divergence",
    "synchronisation",
    "atomic-contention",
    "page-faults",
    "precision-headroom",
    "redundant-work",
]
SYMPTOMS: tuple[Symptom, ...] = get_args(Symptom)

OperatorFamily = Literal[
    "elementwise",
    "reduction",
    "normalization",
    "softmax",
    "convolution",
    "pooling",
    "matmul",
    "attention",
    "gather-scatter",
    "scan",
    "loss",
    "sort",
]
OPERATOR_FAMILIES: tuple[OperatorFamily, ...] = get_args(OperatorFamily)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScopeModel(_Strict):
    """Where a record applies; a missing key applies everywhere."""

    vendor: tuple[str, ...] = ()
    architecture: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    operator: tuple[OperatorFamily, ...] = ()
    dtype: tuple[str, ...] = ()
    library: tuple[Literal["allowed", "forbidden"], ...] = ()

    def value(self) -> Scope:
        """Return the plain value."""
        return Scope(**self.model_dump())


class Evidence(_Strict):
    """One measurement that supports or contradicts a record."""

    task: str
    target: str
    before: float = Field(gt=0, description="seconds before")
    after: float | None = Field(default=None, gt=0, description="seconds after; none if it failed")
    run: str | None = None
    node: int | None = Field(default=None, ge=0, description="of the run: what was measured")
    parent: int | None = Field(
        default=None, ge=0, description="of the run: what it is compared with; none: the reference"
    )
    low: float | None = Field(default=None, gt=0, description="least speed-up that is believable")
    high: float | None = Field(default=None, gt=0, description="largest speed-up")
    at: date | None = None
    outcome: Fate = "won"
    note: str = ""

    @property
    def gain(self) -> float | None:
        """Seconds before over seconds after, None where it failed."""
        return None if self.after is None else self.before / self.after

    @property
    def over_compile(self) -> float | None:
        """The speed-up over torch.compile, where the note gives it as `search.measuring` writes it."""
        found = re.match(r"([\d.]+)x over torch\.compile", self.note)
        return float(found[1]) if found else None

    @property
    def told(self) -> str:
        """The gain in words, with its interval where that is known."""
        if self.gain is None:
            return "failed"
        known = self.low is not None and self.high is not None
        return f"{self.gain:.2f}x" + (f" ({self.low:.2f} to {self.high:.2f})" if known else "")


class Choices(_Strict):
    """A knob with listed values; the first is the default."""

    choices: tuple[int | float | str | bool, ...] = Field(min_length=1)


class Range(_Strict):
    """An integer knob between two bounds, both included."""

    low: int
    high: int
    step: int = 1
    default: int


Knob = Choices | Range


class Recipe(_Strict):
    """How the offline author renders this idea.

    A recipe has its own template (the body's fenced block marked ``jinja``), or refines another
    idea's recipe by fixing some of its knobs.
    """

    pattern: str = Field(
        description="segment pattern that it fits, e.g. rows, pointwise, conv, matmul"
    )
    refines: str | None = Field(default=None, description="name of the idea whose template it uses")
    like: str | None = Field(
        default=None,
        description="name of the idea whose measurements say what to expect until it has its own",
    )
    set: Mapping[str, int | float | str | bool] = {}
    knobs: Mapping[str, Knob] = {}
    flags: tuple[str, ...] = Field(default=(), description="extra compiler flags")
    needs: tuple[str, ...] = Field(
        default=(), description="limits that a target's record must name, e.g. tile_registers"
    )


Phrase = Annotated[str, Field(min_length=3, max_length=120)]
Phrases = Annotated[tuple[Phrase, ...], Field(min_length=1, max_length=12)]


class _Record(_Strict):
    title: str = Field(min_length=3)
    scope: ScopeModel = ScopeModel()
    sources: tuple[str, ...] = ()
    asked: Phrases | Mapping[str, Phrases] = Field(
        default={},
        description="how an engineer would ask for it, by heading where headings answer different "
        "questions: looked for, never quoted",
    )


class IdeaRecord(_Record):
    """An optimisation in plain language."""

    kind: Literal["idea"]
    category: Category
    symptoms: tuple[Symptom, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    recipe: Recipe | None = None
    anti: bool = Field(default=False, description="looks right and loses, where the scope says")


Effect = Literal["wins", "helps", "even", "hurts", "fails"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)


class Claim(_Strict):
    """What a lesson says, in a form that a later run confirms or contradicts."""

    effect: Effect
    topic: str = Field(default="", description="the same for lessons that speak of the same thing")
    subject: str = Field(description="name of the idea's record, or its title")
    change: tuple[str, ...] = Field(default=(), description="from parent to child, a line each")
    basis: Literal["reference", "parent"] = Field(
        default="parent", description="what the gain is measured against"
    )
    target: str = ""
    regime: str = Field(default="", description="of shapes: what the working set fits, row lengths")
    pattern: str = Field(default="", description="of the segment that it changes")
    before: tuple[Symptom, ...] = Field(default=(), description="bottleneck before")
    after: tuple[Symptom, ...] = Field(default=(), description="bottleneck after")


class EvidenceTally(_Strict):
    """Evidence that is no longer listed one by one."""

    confirmed: int = Field(default=0, ge=0)
    contradicted: int = Field(default=0, ge=0)


class Retirement(_Strict):
    """Why a lesson is believed no more."""

    because: str = Field(min_length=3)
    at: date
    by: Literal["evidence", "user"]


class LessonRecord(_Record):
    """What a finished run taught."""

    kind: Literal["lesson"]
    number: int | None = Field(default=None, ge=1, description="short name, for `kb lessons`")
    symptoms: tuple[Symptom, ...] = ()
    claim: Claim | None = None
    evidence: tuple[Evidence, ...] = Field(min_length=1)
    earlier: EvidenceTally = EvidenceTally()
    idea: str | None = Field(default=None, description="name of the idea record that it is about")
    plan: Mapping[str, Any] | None = Field(
        default=None, description="the winning choice of recipes and knobs, per segment"
    )
    retired: Retirement | None = None
    edited: bool = Field(default=False, description="its words are a person's: kept as they are")


class GuideRecord(_Record):
    """Language notes, constraints on an answer, or guidance."""

    kind: Literal["language", "constraint", "guide", "kernel"]
    symptoms: tuple[Symptom, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    form: str = Field(
        default="",
        description="of a language: what its kernels are in an answer's file, for prompts",
    )


class Match(_Strict):
    """How a device is recognised as this target."""

    cpu_vendor: str | None = Field(default=None, description="vendor_id of /proc/cpuinfo")
    cpu_family: int | None = None
    cpu_models: tuple[int, ...] = ()
    cpu_flags: tuple[str, ...] = Field(default=(), description="all must be present")
    gpu_name: str | None = Field(default=None, description="substring of the driver's device name")


class Cache(_Strict):
    """One level of the memory hierarchy."""

    bytes: int = Field(gt=0)
    shared_by: str = Field(description="core, sm, cu, cluster, socket, device")
    bandwidth: float | None = Field(
        default=None, description="bytes/s, or per clock where the note says"
    )


class TargetRecord(_Record):
    """A device as knowledge: every number that code or a prompt needs, in SI units."""

    kind: Literal["target"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    vendor: str
    architecture: str
    device: Literal["cpu", "gpu", "accelerator"] = Field(
        description="an accelerator is described, and no answer is judged on it"
    )
    aliases: tuple[str, ...] = ()
    match: Match = Match()
    languages: tuple[str, ...] = Field(min_length=1, description="best first")
    units: int = Field(gt=0, description="cores, SMs or compute units of one device")
    clock: float | None = Field(
        gt=0, description="Hz, highest sustained or boost: the notes say which; null: not published"
    )
    simd_width: int = Field(
        gt=0, description="bits of a vector register, or warp/wavefront lanes on a GPU"
    )
    flops_per_cycle: Mapping[str, float] = Field(
        default={}, description="per unit and clock, by dtype, FMA counted as two"
    )
    peak: Mapping[str, float] = Field(description="FLOP/s of the whole device by dtype")
    bandwidth: float = Field(gt=0, description="bytes/s between the device and its memory")
    memory: int | None = Field(default=None, description="bytes")
    caches: Mapping[str, Cache] = {}
    limits: Mapping[str, int] = Field(
        default={}, description="registers, shared memory, threads, ... as the notes name them"
    )


Record = Annotated[
    IdeaRecord | LessonRecord | GuideRecord | TargetRecord, Field(discriminator="kind")
]
_ADAPTER: TypeAdapter[IdeaRecord | LessonRecord | GuideRecord | TargetRecord] = TypeAdapter(Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A record with its body.

    Attributes:
        name: the file's stem, unique within its kind: the name that other records use.
        path: where it was read from, as the user would write it.
    """

    name: str
    path: str
    record: IdeaRecord | LessonRecord | GuideRecord | TargetRecord
    body: str


# The parser in C reads the library five times as fast; it is missing where PyYAML was built without.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)


def asked_groups(
    asked: tuple[str, ...] | Mapping[str, tuple[str, ...]],
) -> dict[str, tuple[str, ...]]:
    """Return the ways to ask for a record by heading; under none those for all of it."""
    if isinstance(asked, Mapping):
        return dict(asked)
    return {"": asked} if asked else {}


def parse_record(text: str, path: str) -> Document:
    """Read one record.

    Args:
        text: the whole file.
        path: where it came from, for messages.

    Raises:
        RecordError: there is no front matter, or it breaks the schema.
    """
    front, body = split_front_matter(text)
    if front is None:
        raise RecordError(
            f"{path}: expected YAML front matter between two lines of ---, found none"
        )
    try:
        loaded = yaml.load(front, Loader=_LOADER)  # noqa: S506 - both loaders are the safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # The constructors of YAML let a date that does not exist, and what nests too deep, out.
        raise RecordError(f"{path}: {' '.join(str(error).split())}") from error
    try:
        record = _ADAPTER.validate_python(loaded)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "front matter"
        raise RecordError(f"{path}: {place}: {first['msg']} (found {first['input']!r})") from error
    headings = {"", *_HEADING.findall(body)}
    for heading in asked_groups(record.asked):
        if heading not in headings:
            raise RecordError(
                f"{path}: asked: expected a heading of the text, found {heading!r}: "
                "name one, or give a list for the whole record"
            )
    return Document(name=Path(path).stem, path=path, record=record, body=body.strip() + "\n")
