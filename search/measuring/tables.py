"""Reference tasks that ideas are measured on: data in ``hardware_docs/measurements``, a file a pattern.

A file names references (a forward with sizes left open), and lists for each kind of device the
shapes that they are given. A task's name, ``softmax 4096x1024``, is what evidence calls it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.records.schema import OperatorFamily
from search.settings import PrecisionName
from search.task import Task, TaskFile

FOLDER = "measurements"
# What is special about a shape: an idea is measured on one of each kind before a second of any.
Kind = Literal["small", "cache", "memory", "odd", "skinny"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Device = Literal["cpu", "gpu"]
_SOURCE = """import torch
import torch.nn as nn
import torch.nn.functional as F

{sizes}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {names}):
        {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
_TASK = re.compile(r"(?P<reference>\S+) (?P<sizes>\d+(?:x\d+)*)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reference(_Strict):
    """A program whose sizes are left open."""

    operator: OperatorFamily
    sizes: tuple[str, ...] = Field(min_length=1, description="names, in the order of a shape")
    inputs: tuple[str, ...] = Field(min_length=1, description="expressions; called a, b, c, …")
    forward: str
    init: str = "pass"
    precision: PrecisionName = "strict"
    without: tuple[str, ...] = Field(
        default=(), description="ideas that do nothing here, though their recipes fit"
    )


_Listed = tuple[Annotated[Mapping[Kind, str], Field(min_length=1, max_length=1)], ...]


class _File(_Strict):
    references: Mapping[str, Reference]
    cpu: _Listed = ()
    gpu: _Listed = ()


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A reference with its sizes: one task.

    Attributes:
        name: as evidence calls it: ``softmax 4096x1024``.
    """

    name: str
    kind: Kind
    reference: Reference
    sizes: tuple[int, ...]

    @cached_property
    def source(self) -> str:
        """The reference program in KernelBench's format."""
        pairs = zip(self.reference.sizes, self.sizes, strict=True)
        return _SOURCE.format(
            sizes="\n".join(f"{name} = {size}" for name, size in pairs),
            init=_indented(self.reference.init),
            names=", ".join("abcdef"[: len(self.reference.inputs)]),
            forward=_indented(self.reference.forward),
            inputs=", ".join(self.reference.inputs),
        )

    @property
    def slug(self) -> str:
        """The name as a part of a file's name."""
        return self.name.replace(" ", "-")

    def task(self, folder: Path) -> Task:
        """Return the task, its reference written to `folder`."""
        path = folder / f"{self.slug}.py"
        path.write_text(self.source, encoding="utf-8")
        settings = TaskFile(reference=path.name, precision=self.reference.precision)
        return Task(
            name=self.slug, path=path, reference=path, source=self.source, settings=settings
        )


Tables = Mapping[str, tuple[Shape, ...]]


def load_tables(device: Device, root: Path | None = None) -> Tables:
    """Read the tasks for a kind of device by the pattern of the recipes that they are for.

    Args:
        root: a folder of tables, the shipped one without.

    Raises:
        RecordError: a file breaks the schema.
    """
    folder = root or shipped_docs() / FOLDER
    return {path.stem: _shapes(path, device) for path in sorted(folder.glob("*.yaml"))}


def _shapes(path: Path, device: Device) -> tuple[Shape, ...]:
    try:
        file = _File.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise RecordError(f"{path}: {' '.join(str(error).split())[:300]}") from error
    listed = file.cpu if device == "cpu" else file.gpu
    found = tuple(
        _shape(path, file, kind, name) for entry in listed for kind, name in entry.items()
    )
    if len({shape.name for shape in found}) < len(found):
        raise RecordError(f"{path}: {device}: expected each task once, found one twice")
    return found


def _shape(path: Path, file: _File, kind: Kind, name: str) -> Shape:
    match = _TASK.fullmatch(name)
    reference = file.references.get(match["reference"]) if match else None
    if match is None or reference is None:
        raise RecordError(
            f"{path}: expected a reference of this file and sizes, as in softmax 64x256, found {name!r}"
        )
    sizes = tuple(int(size) for size in match["sizes"].split("x"))
    if len(sizes) != len(reference.sizes):
        raise RecordError(
            f"{path}: {name}: expected {len(reference.sizes)} sizes ({', '.join(reference.sizes)}), found {len(sizes)}"
        )
    return Shape(name=name, kind=kind, reference=reference, sizes=sizes)


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n        ")
