"""Task files: what the user asks for, checked at the edge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from kb.errors import TaskError
from search.comparisons import as_names, checked_names, read_kernels
from search.workloads import WorkloadSettings, checked_workloads

FINAL_SECONDS = 10.0  # of measuring each of the best again, to report it


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Tolerances(_Strict):
    """Explicit tolerances: ``|candidate - truth| <= absolute + relative * |truth|``."""

    absolute: float = Field(ge=0, allow_inf_nan=False)
    relative: float = Field(ge=0, allow_inf_nan=False)

    @field_validator("absolute", "relative", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        # YAML 1.1 reads 1e-4 as a string.
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                return value
        return float(value) if type(value) is int else value


PrecisionName = Literal["strict", "framework", "tf32", "half", "kernelbench"]


class RequestSettings(_Strict):
    """What a model may ask of the knowledge base before it gives ideas."""

    steps: int = Field(default=3, ge=0, le=10, description="replies with requests; 0: none")
    tokens: int = Field(default=8_000, ge=500, description="of all answers together, at most")


class SearchSettings(_Strict):
    """How the graph is searched."""

    policy: str = "beam"
    exploration: Annotated[float, Field(ge=0, strict=False)] | None = Field(
        default=None, description="of policy uct: how much untried nodes count, 1.4 where unset"
    )
    islands: int | None = Field(
        default=None, ge=2, le=64, description="of policy islands: how many, 3 where unset"
    )
    migration: int | None = Field(
        default=None, ge=1, description="of policy islands: rounds between two migrations"
    )
    rounds: int = Field(default=5, ge=1, le=1000)
    ideas: int = Field(default=4, ge=1, le=64, description="a round, over all parents")
    branches: int = Field(default=3, ge=1, le=64, description="implementations of an idea")
    seed: int = Field(default=0, ge=0, lt=2**31)
    memory: Literal["rule", "trajectory", "siblings", "both", "clean"] = Field(
        default="rule", description="how much of the search a model is told, see docs/prompts.md"
    )
    knowledge: Annotated[
        float,
        Field(
            ge=0, le=1, strict=False, description="share of a search's parents that get passages"
        ),
    ] = 1.0
    overlap: bool = Field(
        default=False,
        description="write while others are judged: two rounds are open at once, see docs/search.md",
    )
    knob_trials: int = Field(
        default=6, ge=0, le=200, description="values of declared KNOBS tried for an idea"
    )
    requests: RequestSettings = RequestSettings()


class StopSettings(_Strict):
    """When a run ends; null means never for that reason."""

    candidates: int | None = Field(default=60, ge=1)
    minutes: (
        Annotated[
            float,
            Field(gt=0, strict=False, description="preparation and final measurement included"),
        ]
        | None
    ) = 4.0
    speedup: Annotated[float, Field(gt=0, strict=False)] | None = None
    stalled_rounds: int | None = Field(default=3, ge=1)
    roofline: Annotated[float, Field(gt=0, le=1, strict=False)] | None = 0.95
    tokens: int | None = Field(
        default=None, ge=1, description="of language models, prompts and replies together"
    )
    money: Annotated[float, Field(gt=0, strict=False)] | None = Field(
        default=None, description="for language models, in the currency of the prices"
    )
    requests: int | None = Field(default=None, ge=1, description="to language models")


class ModelSettings(_Strict):
    """A language model; its key comes from the environment or the keyring, never from here."""

    name: str
    base_url: str | None = None
    provider: str = "openai"
    key: str | None = Field(
        default=None,
        description="the NAME of the environment variable (or keyring entry) that holds the key",
    )
    temperature: Annotated[float, Field(ge=0, le=2, strict=False)] = 0.7
    context_tokens: int = Field(default=32_000, ge=1_000, description="prompt and reply together")
    reply_tokens: int = Field(default=8_000, ge=64)
    tokenizer: str | None = Field(
        default=None,
        description="the model's tokenizer.json, or its folder; without it tokens are counted by tiktoken",
    )
    timeout_seconds: Annotated[float, Field(gt=0, strict=False)] = 300.0
    retries: int = Field(default=3, ge=0, le=20)
    concurrency: int = Field(
        default=4,
        ge=1,
        le=256,
        description="requests under way at once, where `search.overlap` is on",
    )
    weight: Annotated[float, Field(gt=0, strict=False)] = Field(
        default=1.0, description="in an ensemble: how often it is asked"
    )

    @field_validator("key")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        # The value is not repeated where a key itself was pasted.
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", value):
            raise ValueError("expected the name of an environment variable, not the key itself")
        return value

    @field_validator("base_url")
    @classmethod
    def _bare(cls, value: str | None) -> str | None:
        if value is not None and re.search(r"//[^/]*@|[?&](api_?)?(key|token)=", value, re.I):
            raise ValueError("expected an address without credentials: set the key elsewhere")
        return value


def _several(value: object) -> object:
    if isinstance(value, dict):
        return (value,)
    if isinstance(value, list | tuple) and value:
        return tuple(value)
    raise ValueError("expected a model as {name: …}, or a list of such")


Models = Annotated[tuple[ModelSettings, ...], BeforeValidator(_several)]


class ModelsSettings(_Strict):
    """Models by what they write; each is one model or a list (an ensemble)."""

    ideas: Models | None = None
    code: Models | None = None
    repair: Models | None = None
    diagnosis: Models | None = None

    @field_validator("ideas", "code", "repair", "diagnosis")
    @classmethod
    def _distinct(cls, value: tuple[ModelSettings, ...] | None) -> object:
        names = [one.name for one in value or ()]
        if len(set(names)) < len(names):
            raise ValueError("expected models with different names")
        return value


class SpoolSettings(_Strict):
    """Judge elsewhere: `kb judge FOLDER` runs on the machine with the device."""

    spool: str = Field(min_length=1, description="folder, seen from the task file")


class TaskFile(_Strict):
    """The YAML that a user writes; only `reference` has no default."""

    reference: str
    name: str | None = None
    target: str = "auto"
    language: str = "auto"
    precision: PrecisionName | Tolerances = "strict"
    baselines: Annotated[
        tuple[str, ...], BeforeValidator(as_names), AfterValidator(checked_names)
    ] = Field(
        default=(),
        description="beside eager and torch.compile: max-autotune, reduce-overhead, kernels' .py files",
    )
    workloads: Annotated[
        tuple[WorkloadSettings, ...], BeforeValidator(as_names), AfterValidator(checked_workloads)
    ] = Field(
        default=(), description="several inputs with weights, for one candidate and one verdict"
    )
    slower_workloads: Literal["forbidden", "allowed"] = Field(
        default="forbidden", description="than a baseline, in what a verdict is made of"
    )
    search: SearchSettings = SearchSettings()
    library: Literal["allowed", "forbidden"] = "allowed"
    packing: Literal["allowed", "forbidden", "tables"] = Field(
        default="allowed",
        description="of weights, in a candidate's constructor; tables: also of the answers to every possible input",
    )
    special_values: bool = Field(default=False, description="also judge on infinities and NaN")
    stop: StopSettings = StopSettings()
    final_seconds: Annotated[float, Field(ge=0.1, strict=False)] = FINAL_SECONDS
    author: str = "auto"
    mailbox: str | None = Field(
        default=None, min_length=1, description="folder of author mailbox, seen from the task file"
    )
    model: ModelSettings | None = None
    models: ModelsSettings | None = None
    evaluator: Literal["local", "workers"] | SpoolSettings = Field(
        default="local", description="workers: those of the database, see docs/workers.md"
    )
    retrieval: bool = Field(
        default=True, description="off: authors are given no passages, to see what those are worth"
    )
    prompts: str | None = Field(
        default=None, description="folder of templates of one's own, seen from the task file"
    )
    profile: Literal["timeline", "ncu"] = Field(
        default="timeline",
        description="ncu also counts what parents do in the hardware, some ten seconds each, behind fewer walls",
    )

    @field_validator("evaluator", mode="before")
    @classmethod
    def _evaluator(cls, value: object) -> object:
        if value in ("local", "workers") or isinstance(value, dict | SpoolSettings):
            return value
        raise ValueError("expected local, workers, or a folder as {spool: path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task that can be run.

    Attributes:
        path: the file that the user named (YAML or the reference itself).
        reference: absolute path of the reference program.
        source: text of the reference.
        kernels: name and source of each kernel that is a baseline.
    """

    name: str
    path: Path
    reference: Path
    source: str
    settings: TaskFile
    kernels: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> str:
        """Hash of what decides whether an answer is right: reference, precision, library policy."""
        precision = self.settings.precision
        parts = (
            self.source,
            precision if isinstance(precision, str) else precision.model_dump_json(),
            self.settings.library,
            str(self.settings.special_values),
            *((f"packing {packing}",) if (packing := self.settings.packing) != "allowed" else ()),
            *(one.model_dump_json() for one in self.settings.workloads),
            *(
                (f"slower {slower}",)
                if (slower := self.settings.slower_workloads) != "forbidden"
                else ()
            ),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def precision(self) -> str:
        """The precision in words."""
        chosen = self.settings.precision
        if isinstance(chosen, str):
            return chosen
        return f"absolute {chosen.absolute:g}, relative {chosen.relative:g}"

    @property
    def prompts(self) -> Path | None:
        """The folder of the task's own templates, None where it has none."""
        named = self.settings.prompts
        return None if named is None else (self.path.parent / Path(named).expanduser()).absolute()

    @property
    def spool(self) -> Path | None:
        """The folder through which candidates are judged elsewhere, None where they are not."""
        chosen = self.settings.evaluator
        if isinstance(chosen, str):
            return None
        return (self.path.parent / Path(chosen.spool).expanduser()).absolute()

    @property
    def elsewhere(self) -> bool:
        """Whether candidates are judged by another process than the run's."""
        return self.settings.evaluator != "local"

    @property
    def mailbox(self) -> Path | None:
        """The folder that the task names for author mailbox, None where it names none."""
        chosen = self.settings.mailbox
        return None if chosen is None else (self.path.parent / Path(chosen).expanduser()).absolute()


def load_task(path: Path) -> Task:
    """Read a task file, or take a reference program as a task with every default.

    Raises:
        TaskError: the file cannot be read, or a key is unknown, missing or of the wrong type.
    """
    if path.suffix == ".py":
        settings = TaskFile(reference=path.name)
    else:
        settings = _parse(_read(path, "task file"), path)
    reference = (path.parent / settings.reference).expanduser().absolute()
    source = _read(reference, "reference")
    return Task(
        name=settings.name or reference.stem,
        path=path.absolute(),
        reference=reference,
        source=source,
        settings=settings,
        kernels=read_kernels(path, settings.baselines),
    )


def override(
    task: Task,
    *,
    rounds: int | None = None,
    candidates: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    **chosen: Any,
) -> Task:
    """Return the task with what the command line said in place of what the file said.

    Args:
        chosen: other settings of a task file by name; None for as the file says.

    Raises:
        TaskError: a value is out of its range.
    """
    values = task.settings.model_dump()
    values.update({key: value for key, value in chosen.items() if value is not None})
    for part, key, value in (
        ("search", "rounds", rounds),
        ("search", "seed", seed),
        ("stop", "candidates", candidates),
        ("stop", "minutes", minutes),
    ):
        if value is not None:
            values[part][key] = value
    try:
        return replace(task, settings=TaskFile.model_validate(values))
    except ValidationError as error:
        raise TaskError(f"command line: {_explain(error)}") from error


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise TaskError(f"{what} {path} does not exist: check the path") from error
    except IsADirectoryError as error:
        raise TaskError(f"{what} {path} is a folder: name a file") from error
    except UnicodeDecodeError as error:
        raise TaskError(
            f"{what} {path} is not text (invalid UTF-8 at byte {error.start})"
        ) from error
    except OSError as error:
        raise TaskError(f"{what} {path} cannot be read: {error.strerror}") from error


def _parse(text: str, path: Path) -> TaskFile:
    try:
        loaded: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise TaskError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(loaded, dict):
        raise TaskError(
            f"{path}: expected keys and values with at least 'reference:', found {type(loaded).__name__}"
        )
    try:
        return TaskFile.model_validate(loaded)
    except ValidationError as error:
        raise TaskError(f"{path}: {_explain(error)}") from error


_UNION = r"literal\[|(Tolerances|SpoolSettings)$"  # which member of a union pydantic tried


def _explain(error: ValidationError) -> str:
    errors = error.errors()
    # `precision` and `evaluator` are a name or a mapping: complain about what the user tried to write.
    first = errors[1] if len(errors) > 1 and isinstance(errors[0]["input"], dict) else errors[0]
    loc = [str(part) for part in first["loc"] if not re.match(_UNION, str(part))]
    key = ".".join(loc)
    if key.endswith((".key", ".base_url")):  # what was found may be a secret
        return f"key '{key}': {first['msg'].removeprefix('Value error, ')}"
    if first["type"] == "extra_forbidden":
        return f"unknown key '{key}': known here are {', '.join(_known_keys(loc[:-1]))}"
    if first["type"] == "missing":
        example = ", e.g. reference: conv2d.py" if key == "reference" else ""
        return f"key '{key}' is missing: give it a value{example}"
    message = first["msg"].lower().removeprefix("value error, ")
    return f"key '{key}': {message}, found {first['input']!r}"


def _known_keys(parents: list[str]) -> Iterable[str]:
    if not parents:
        return TaskFile.model_fields
    sections: dict[str, type[BaseModel]] = {
        "search": SearchSettings if len(parents) == 1 else RequestSettings,
        "stop": StopSettings,
        "model": ModelSettings,
        "models": ModelsSettings if len(parents) == 1 else ModelSettings,
        "precision": Tolerances,
        "evaluator": SpoolSettings,
        "workloads": WorkloadSettings,
    }
    return sections[parents[0]].model_fields
