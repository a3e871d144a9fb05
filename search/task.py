"""Task files: what the user asks for, checked at the edge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from kb.config import user_path
from kb.errors import TaskError
from search.comparisons import as_names, checked_names, read_kernels
from search.settings import (
    ModelSettings,
    ModelsSettings,
    PrecisionName,
    RequestSettings,
    SearchSettings,
    SpoolSettings,
    StopSettings,
    StrictModel,
    Tolerances,
)
from search.workloads import WorkloadSettings, checked_workloads

TIMING_SECONDS = 1.0  # of timing each candidate, beside its baselines
FINAL_SECONDS = 10.0  # of measuring each of the best again, to report it


class TaskFile(StrictModel):
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
    compiler: bool = Field(
        default=True,
        description="off: torch.compile is no baseline, and its code no candidate; it may take minutes",
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
    timing_seconds: Annotated[float, Field(ge=0.05, strict=False)] = TIMING_SECONDS
    final_seconds: Annotated[float, Field(ge=0.1, strict=False)] = FINAL_SECONDS
    author: str = "auto"
    mailbox: str | None = Field(
        default=None,
        min_length=1,
        description="folder of author mailbox, who is the author then; seen from the task file",
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

    @model_validator(mode="before")
    @classmethod
    def _asked_by_letter(cls, values: Any) -> Any:
        """Whoever names a mailbox and no author wants to be the author."""
        if isinstance(values, dict) and values.get("mailbox") and "author" not in values:
            return {**values, "author": "mailbox"}
        return values

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
        return None if named is None else (self.path.parent / user_path(named)).absolute()

    @property
    def spool(self) -> Path | None:
        """The folder through which candidates are judged elsewhere, None where they are not."""
        chosen = self.settings.evaluator
        if isinstance(chosen, str):
            return None
        return (self.path.parent / user_path(chosen.spool)).absolute()

    @property
    def elsewhere(self) -> bool:
        """Whether candidates are judged by another process than the run's."""
        return self.settings.evaluator != "local"

    @property
    def mailbox(self) -> Path | None:
        """The folder that the task names for author mailbox, None where it names none."""
        chosen = self.settings.mailbox
        return None if chosen is None else (self.path.parent / user_path(chosen)).absolute()


def load_task(path: Path) -> Task:
    """Read a task file, or take a reference program as a task with every default.

    Raises:
        TaskError: the file cannot be read, or a key is unknown, missing or of the wrong type.
    """
    if path.suffix == ".py":
        settings, reference = TaskFile(reference=path.name), path.absolute()
    else:
        settings = _parse(_read(path, "task file"), path)
        reference = (path.parent / user_path(settings.reference)).absolute()
    source = _read(reference, "reference")
    return Task(
        name=settings.name or reference.stem,
        path=path.absolute(),
        reference=reference,
        source=source,
        settings=settings,
        kernels=read_kernels(path, settings.baselines),
    )


def stored_settings(stored: Mapping[str, Any]) -> TaskFile:
    """Return the settings of a run from its record, which an older version may have written.

    Raises:
        ValidationError: they hold what this version does not know.
    """
    # A run from before there were requests goes on, and replays, without them.
    search = {"requests": {"steps": 0}, **stored.get("search", {})}
    # An older version had ways to choose within an ensemble: what it chose is in the record.
    models = {name: one for name, one in (stored.get("models") or {}).items() if name != "choose"}
    return TaskFile.model_validate({**stored, "search": search, "models": models or None})


def is_reference(path: Path) -> bool:
    """Say whether a Python file is a reference, and not one that references import."""
    return path.is_file() and "get_inputs" in path.read_text(encoding="utf-8", errors="replace")


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
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a day that is none
        raise TaskError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(loaded, dict):
        found = "an empty file" if loaded is None else type(loaded).__name__
        raise TaskError(
            f"{path}: expected keys and values with at least 'reference:', found {found}"
        )
    try:
        return TaskFile.model_validate(loaded)
    except ValidationError as error:
        raise TaskError(f"{path}: {_explain(error)}") from error


# In words of YAML, where pydantic speaks of Python.
_EXPECTED = {
    "tuple_type": "expected a list",
    "model_type": "expected keys and values",
    "dict_type": "expected keys and values",
}
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
    message = _EXPECTED.get(first["type"]) or first["msg"].lower().removeprefix("value error, ")
    found = "nothing" if first["input"] is None else repr(first["input"])
    return f"key '{key}': {message}, found {found}"


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
