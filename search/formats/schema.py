"""The schemas of definitions and workloads, as far as they are used."""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb.errors import TaskError
from search.formats import read_json, read_text

_M = TypeVar("_M", bound=BaseModel)
FLOATS = ("float64", "float32", "float16", "bfloat16")


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True)


class ConstantAxis(_Lenient):
    """A dimension that is always the same."""

    type: Literal["const"]
    value: int = Field(ge=0)


class VariableAxis(_Lenient):
    """A dimension that each workload gives."""

    type: Literal["var"]


class ExpressionAxis(_Lenient):
    """A dimension that follows from others."""

    type: Literal["expr"]
    expression: str = Field(max_length=200)


class TensorSpec(_Lenient):
    """An input or output; without a shape it is a Python number."""

    shape: tuple[str, ...] | None
    dtype: str


class KernelDefinition(_Lenient):
    """What is used of a definition."""

    name: str = Field(min_length=1)
    axes: dict[
        str, Annotated[ConstantAxis | VariableAxis | ExpressionAxis, Field(discriminator="type")]
    ]
    inputs: dict[str, TensorSpec] = Field(min_length=1)
    outputs: dict[str, TensorSpec] = Field(min_length=1)
    reference: str
    custom_inputs_entrypoint: str | None = None


class InputSource(_Lenient):
    """Where an input of a workload comes from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: int | float | bool | None = None


class KernelWorkload(_Lenient):
    """What is used of a workload."""

    uuid: str = Field(min_length=1)
    axes: dict[str, Annotated[int, Field(ge=0)]]
    inputs: dict[str, InputSource]


def load_definition(path: Path) -> KernelDefinition:
    """Return a definition.

    Raises:
        TaskError: it is none, or asks for what cannot be judged here.
    """
    definition = parsed(KernelDefinition, read_json(path, read_text(path)), f"{path}")
    _check(definition, path)
    return definition


def parsed(model: type[_M], values: Any, where: str) -> _M:
    """Return what a schema reads of plain values; `where` begins the message of an error.

    Raises:
        TaskError: they are of another schema.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the whole"
        raise TaskError(
            f"{where}: {key}: {first['msg']}: is it of flashinfer-bench or SOL-ExecBench?"
        ) from error


def _check(definition: KernelDefinition, path: Path) -> None:
    for name in (*definition.inputs, *definition.axes):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise TaskError(f"{path}: expected names as in Python, found {name!r}: rename it")
    for name, spec in definition.inputs.items():
        if spec.dtype.startswith(("float8", "float4")):
            raise TaskError(
                f"{path}: input {name}: expected float64 to bfloat16, integers or bool, found {spec.dtype}: the judge "
                "has no tolerances for it"
            )
    for name, spec in (*definition.inputs.items(), *definition.outputs.items()):
        missing = [axis for axis in spec.shape or () if axis not in definition.axes]
        if missing:
            raise TaskError(
                f"{path}: {name}: expected axes of the definition, found {missing[0]!r}: add it to axes"
            )
    if any(spec.shape is None for spec in definition.outputs.values()):
        raise TaskError(
            f"{path}: expected tensors as outputs, found a Python number: return a tensor of one element"
        )
