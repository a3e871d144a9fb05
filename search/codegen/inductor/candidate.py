"""A candidate's file made of what Inductor wrote: the reference's module, its kernels, and torch's functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search.codegen.backends.gpu_module import opening
from search.codegen.backends.prelude import needed
from search.codegen.inductor import Captured, Origin, Uncaptured
from search.codegen.inductor.gpu_kernels import declared, imports
from search.codegen.inductor.native import join
from search.codegen.inductor.wrapper import Wrapper, read
from search.codegen.module_writer import fill, of_module, split_imports, strip
from search.strides import contiguous, is_dense


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """Kernels of recipes that Inductor's code calls.

    Attributes:
        source: their C++, or for a GPU their Python with the functions that launch them.
        loading: the lines that load it; none for a GPU.
        constants: tensors of the file, as texts by name.
        writes: shapes and types of what each kernel writes.
        notes: which idea made each kernel.
    """

    source: str
    loading: tuple[str, ...]
    constants: Mapping[str, str]
    writes: Mapping[str, Sequence[tuple[Sequence[int], str]]]
    notes: Mapping[str, str]


def write(source: str, found: Captured, native: Native | None = None) -> str:
    """Return the candidate.

    Args:
        source: text of the reference.
        native: what recipes do in place of Inductor.

    Raises:
        Uncaptured: Inductor's module has something that is not read.
    """
    python = native is not None and not native.loading
    wrapper = read(found.code, native.writes if native else {}, found.configs, python=python)
    module, arguments = strip(source)
    if len(wrapper.arguments) != len(found.origins):
        raise Uncaptured(f"it takes {len(wrapper.arguments)} arguments, {len(found.origins)} given")
    body = _Body(found, wrapper, arguments, native.notes if native else {}).lines()
    head, tail = split_imports(fill(module, body))
    future = ["from __future__ import annotations", ""]
    blocks = future if "from __future__ import annotations" in source else []
    triton = "\n\n\n".join(map(declared, wrapper.triton))
    own = "\n\n\n".join([*needed(native.source), native.source]) if native and python else ""
    blocks += _imports(triton, own, head)
    if wrapper.kernels or (native and not python):
        blocks += ["", "from kb.native import load_cpp, method"]
    blocks += ["", *head, "", f"# Written by torch.compile (Inductor of torch {found.version})."]
    blocks += _compiled(wrapper, found)
    if triton:
        blocks += ["", "", triton, ""]
    if native:
        text = own if python else f"CPP_SOURCE = r'''\n{native.source}'''"
        blocks += ["", "# Parts of it done by recipes.", text, ""]
        blocks += native.loading
        blocks += [f"{name} = {text}" for name, text in native.constants.items()]
    blocks += [f"{name} = {_literal(value)}" for name, value in found.constants.items()]
    return "\n".join([*blocks, "", "", tail]).rstrip() + "\n"


def _imports(triton: str, own: str, head: list[str]) -> list[str]:
    """Return the imports that Inductor's kernels need, and those of recipes for a GPU."""
    lines = opening(own, head) if own else ["import torch"]
    return [*lines, *(line for line in (imports(triton) if triton else ()) if line not in lines)]


def _compiled(wrapper: Wrapper, found: Captured) -> list[str]:
    """Return the lines that hold and load Inductor's C++."""
    if not wrapper.kernels:
        return []
    return [
        f"INDUCTOR_SOURCE = r'''\n{join(wrapper.kernels)}'''",
        "",
        f'_inductor = load_cpp(INDUCTOR_SOURCE, flags="{" ".join(found.flags)}")',
        *(f"_{one.name} = method(_inductor.{one.name})" for one in wrapper.kernels),
    ]


class _Body:
    """Writes the statements of the forward."""

    def __init__(
        self,
        found: Captured,
        wrapper: Wrapper,
        arguments: list[str],
        notes: Mapping[str, str],
    ) -> None:
        self._notes = notes
        self._found = found
        self._wrapper = wrapper
        self._inputs = arguments
        self._names = self._named()

    def _named(self) -> dict[str, str]:
        """Return a telling name for each argument of Inductor's function."""
        taken = {
            node.id
            for statement in self._wrapper.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name)
        } | set(self._inputs)
        names: dict[str, str] = {}
        for name, origin in zip(self._wrapper.arguments, self._found.origins, strict=True):
            if origin.kind == "input":
                if int(origin.name) >= len(self._inputs):
                    raise Uncaptured("the forward takes its inputs by a star")
                names[name] = self._inputs[int(origin.name)]
                continue
            if origin.kind == "global":
                names[name] = origin.name
                continue
            told = re.sub(r"\W", "_", origin.name)
            while told in taken or not told.isidentifier():
                told += "_" if told.isidentifier() else "t_"
            taken.add(told)
            names[name] = told
        return names

    def lines(self) -> list[str]:
        """Return the lines of the body."""
        rename = _Renamed(self._names)
        used = {
            node.id
            for part in (*self._wrapper.body, *self._wrapper.results)
            for node in ast.walk(part)
            if isinstance(node, ast.Name)
        }
        lines = [
            line
            for name, origin in zip(self._wrapper.arguments, self._found.origins, strict=True)
            for line in self._bound(name, origin)
            if name in used or -1 - self._wrapper.arguments.index(name) in self._places()
        ]
        for statement in self._wrapper.body:
            text = ast.unparse(ast.fix_missing_locations(rename.visit(statement)))
            called = set(re.findall(r"\b_?(\w+)\(", text))
            lines += [f"# {note}" for name, note in self._notes.items() if name in called]
            lines.append(text)
        results = [
            self._result(at, rename) + (".contiguous()" if at in self._found.mislaid else "")
            for at in range(len(self._found.results))
        ]
        return [*lines, f"return {results[0]}" if self._found.single else f"return ({', '.join(results)},)"]  # fmt: skip

    def _places(self) -> set[int]:
        return {place for place, _ in self._found.results}

    def _bound(self, name: str, origin: Origin) -> list[str]:
        told = self._names[name]
        if origin.kind == "global":
            return []
        if origin.kind != "input":
            return [f"{told} = {of_module(origin.kind, origin.name)}"]
        if origin.strides == contiguous(origin.shape):
            return [f"{told} = {told}.contiguous()"]
        return []

    def _result(self, at: int, rename: _Renamed) -> str:
        place, view = self._found.results[at]
        if place < 0:
            text = f"{self._names[self._wrapper.arguments[-1 - place]]}.clone()"
        else:
            text = ast.unparse(rename.visit(self._wrapper.results[place]))
        if view is None:
            gaps = place >= 0 and _shows_part(self._wrapper.results[place])
            return f"{text}.contiguous()" if gaps else text
        shape, strides, offset = view
        begin = f", {text}.storage_offset() + {offset}" if offset else ""
        made = f"torch.as_strided({text}, {shape}, {strides}{begin})"
        return made if is_dense(shape, strides) else f"{made}.contiguous()"


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(id=self._names.get(node.id, node.id), ctx=node.ctx)


def _shows_part(result: ast.expr) -> bool:
    """Say whether a result of Inductor's is a view with gaps, which no answer may be."""
    if not isinstance(result, ast.Call) or not ast.unparse(result.func).endswith("as_strided"):
        return False
    try:
        shape, strides = (ast.literal_eval(one) for one in result.args[1:3])
    except ValueError:
        return True  # sizes that are computed: what is dense already is returned as it is
    return not is_dense(shape, strides)


def _literal(value: Origin) -> str:
    numbers = ", ".join(
        repr(number) if abs(number) < float("inf") else f'float("{number}")'
        for number in value.data
    )
    made = f"torch.tensor([{numbers}], dtype=torch.{value.dtype})"
    moved = '.to("cuda")' if value.device == "cuda" else ""
    return f"torch.as_strided({made}, {value.shape}, {value.strides}){moved}"
