"""The candidate's file: the reference's module with its forward made of kernels and library calls."""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kb.errors import NoRecipe, TaskError
from search.codegen.canonical import OWN
from search.codegen.ir import Shape
from search.codegen.lower import PIECES, SHOWS, LoweredProgram, packet
from search.codegen.operators.pools import ADAPTIVE_MAX
from search.codegen.segments import ATTENTION, Segment
from search.costs.graph import Operator, Ref, Value

_MARK = "_forward_goes_here_"
# Two functions of CPython's stable interface: its headers are not everywhere.
_PYTHON = 'extern "C" { void* PyLong_AsVoidPtr(void*); void Py_IncRef(void*); }\n'
_SHELVES = {"parameter": "_parameters", "buffer": "_buffers"}
_CALLS = {
    "conv2d.default": "torch.conv2d",
    "linear.default": "torch.nn.functional.linear",
    "matmul.default": "torch.matmul",
    "mm.default": "torch.mm",
    "bmm.default": "torch.bmm",
    "addmm.default": "torch.addmm",
}
_OWN_CALLS = {
    f"{OWN}{scan}": f"torch.{scan}({{0}}.flip({{1}}), {{1}}).flip({{1}})"
    for scan in ("cumsum", "cumprod")
}
_OWN_CALLS[ADAPTIVE_MAX] = "torch.nn.functional.adaptive_max_pool2d({0}, {1})"
# Operators of the framework that show a part of a tensor, or an element several times: an answer must have no gaps.
_PARTS = frozenset({
    *PIECES, "select", "slice", "narrow", "diagonal", "linalg_diagonal", "expand", "expand_as", "broadcast_to", "unfold",
    "as_strided", "meshgrid", "broadcast_tensors", "real", "imag",
})  # fmt: skip
_DTYPES = frozenset({
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "int64", "int32", "int16", "int8", "uint64",
    "uint32", "uint16", "uint8", "bool", "complex128", "complex64", "complex32", "qint8", "quint8", "qint32",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedSegment:
    """A rendered segment.

    Attributes:
        note: which idea made it, for the reader of the file.
    """

    name: str
    text: str
    note: str


def assemble(
    source: str,
    program: LoweredProgram,
    parts: tuple[Segment, ...],
    kernels: Mapping[str, RenderedSegment],
    flags: tuple[str, ...],
    prelude: str,
) -> str:
    """Return the whole candidate.

    Args:
        source: text of the reference.
        parts: segments in an order in which they can run.
        kernels: the rendered segments by their ids; the others are library calls.
        flags: compiler flags beyond the usual.
        prelude: C++ in front of the kernels.

    Raises:
        TaskError: the reference has no class ``Model``.
        NoRecipe: a constant of the reference is not at hand.
    """
    module, arguments = strip(source)
    writer = Forward(program, arguments)
    body = writer.write(parts, kernels)
    cpp = native_source(parts, kernels, prelude)
    opening = ["import torch", "", "from kb.native import load_cpp, method", ""]
    if "from __future__ import annotations" in source:
        opening = ["from __future__ import annotations", "", *opening]  # it must come first
    handles = ["", *loaded(kernels, flags)]
    head, tail = split_imports(fill(module, body))
    constants = [f"{name} = {value}" for name, value in writer.constants.items()]
    blocks = [
        *opening,
        *head,
        "",
        f"CPP_SOURCE = r'''\n{cpp}'''",
        *handles,
        *constants,
        "",
        "",
        tail,
    ]
    return "\n".join(blocks).rstrip() + "\n"


def native_source(
    parts: Sequence[Segment], kernels: Mapping[str, RenderedSegment], prelude: str
) -> str:
    """Return the C++ of all kernels, with the functions that Python calls."""
    entries = [_entry(kernels[part.id].name, part) for part in parts if part.id in kernels]
    texts = [*(kernel.text for kernel in kernels.values()), _PYTHON, *entries]
    return prelude.rstrip() + "\n\n" + "\n".join(texts)


def loaded(kernels: Mapping[str, RenderedSegment], flags: Sequence[str]) -> list[str]:
    """Return the lines that load ``CPP_SOURCE`` and bind its kernels."""
    option = f', flags="{" ".join(flags)}"' if flags else ""
    lines = ["_library = load_cpp(CPP_SOURCE" + option + ")"]
    names = (kernel.name for kernel in kernels.values())
    return [*lines, *(f"_{name} = method(_library.{name}_entry)" for name in names)]


def _entry(name: str, part: Segment) -> str:
    """Return the C++ function that Python calls with the addresses of inputs and outputs."""
    count = len(part.inputs)
    inputs = (f"(const float*)PyLong_AsVoidPtr(a[{at}])" for at in range(count))
    outputs = (f"(float*)PyLong_AsVoidPtr(a[{count + at}])" for at in range(len(part.outputs)))
    return (
        f'extern "C" void* {name}_entry(void* none, void* const* a, long) {{\n'
        f"  const float* in[] = {{{', '.join(inputs) or 'nullptr'}}};\n"
        f"  float* out[] = {{{', '.join(outputs)}}};\n"
        f"  {name}(in, out);\n"
        "  Py_IncRef(none);\n"
        "  return none;\n"
        "}\n"
    )


def of_module(kind: str, path: str) -> str:
    """Return the expression of a module's parameter, buffer or other tensor."""
    *modules, last = path.split(".")
    if kind in _SHELVES:
        # A module's attributes are found by a function in Python: 20 us where caches are cold.
        place = "".join(f'._modules["{part}"]' for part in modules)
        return f'self{place}.{_SHELVES[kind]}["{last}"]'
    parts = path.split(".")
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)


def fill(module: str, body: list[str]) -> str:
    """Return the stripped module with the forward's statements in their place."""
    text = "\n".join(" " * 8 + line if line else "" for line in body)
    return re.sub(rf"^ *{_MARK}$", lambda _: text, module, flags=re.MULTILINE)


def split_imports(text: str) -> tuple[list[str], str]:
    """Return the leading import lines and the rest, so that the C++ stands between them."""
    lines = text.split("\n")
    last = 0
    for statement in ast.parse(text).body:
        future = isinstance(statement, (ast.Import, ast.ImportFrom))
        words = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (future or words):
            break
        last = statement.end_lineno or last
    kept = [line for line in lines[:last] if line != "import torch"]
    return kept, "\n".join(lines[last:]).strip("\n")


class _Rename(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == "Model":
            node.id = "ModelNew"
        return node


def strip(source: str) -> tuple[str, list[str]]:
    """Return the module without inputs, its forward replaced by a mark, and the forward's arguments."""
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if "Model" not in classes:
        raise TaskError("the reference defines no class Model: write it in KernelBench's format")
    model = classes["Model"]
    forward = _find_forward(model, classes)
    arguments = [argument.arg for argument in (*forward.args.posonlyargs, *forward.args.args)][1:]
    mark: list[ast.stmt] = [ast.Expr(value=ast.Name(id=_MARK, ctx=ast.Load()))]
    replaced = copy.deepcopy(forward)
    replaced.body, replaced.decorator_list = mark, []
    model.body = [
        node
        for node in model.body
        if not (isinstance(node, ast.FunctionDef) and node.name == "forward")
    ]
    model.body.append(replaced)
    model.name = "ModelNew"
    dropped = ("get_inputs", "get_init_inputs")
    tree.body = [
        _Rename().visit(node)
        for node in tree.body
        if not (isinstance(node, ast.FunctionDef) and node.name in dropped)
        and not _is_script(node)
        and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    ]
    return ast.unparse(ast.fix_missing_locations(tree)), arguments


def _is_script(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _find_forward(model: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> ast.FunctionDef:
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            return node
    for base in model.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            return _find_forward(classes[base.id], classes)
    raise TaskError("the reference's Model has no forward: write it in KernelBench's format")


def _local(name: str) -> str:
    return f"t_{re.sub(r'[^0-9a-zA-Z_]', '_', name)}"


class Forward:
    """Writes the statements of the forward."""

    def __init__(self, program: LoweredProgram, arguments: list[str]) -> None:
        self._program = program
        self.arguments = arguments
        self.values = {value.name: value for value in program.graph.values}
        self._library: set[str] = set()
        self._settled_values: set[str] = set()
        self.constants: dict[str, str] = {}

    def write(
        self, parts: tuple[Segment, ...], kernels: Mapping[str, RenderedSegment]
    ) -> list[str]:
        """Return the lines of the body."""
        lines: list[str] = []
        base = self._program.base
        read = {base(n) for part in parts if part.id in kernels for n in part.inputs}
        for value in self._program.graph.values:
            if value.kind == "input" and value.name in read:
                name = self._value(value)
                lines.append(f"{name} = {name}.contiguous()")
            elif not value.contiguous and value.data is None and value.name in read:
                lines.append(f"{_local(value.name)} = {self._value(value)}.contiguous()")
                self._settled_values.add(value.name)
        unread = self._unread(parts, kernels)
        for part in parts:
            if part.id in kernels:
                lines += self.kernel(part, kernels[part.id])
            elif part.anchor not in unread:
                lines += self._call(part)
        results = [self._result(name) for name in self._program.outputs]
        single = self._program.graph.single_output
        return [*lines, f"return {results[0]}" if single else f"return ({', '.join(results)},)"]

    def _unread(self, parts: Sequence[Segment], kernels: Mapping[str, RenderedSegment]) -> set[str]:
        """Return the library's views that no part reads: a kernel may read what they are a view of."""
        program = self._program
        library = [part.anchor for part in parts if part.id not in kernels and part.anchor]
        read = {name for one in library for name in program.nodes[one].operands}
        read |= {name for part in parts if part.id in kernels for name in part.inputs}
        views = {one for one in library if packet(program.operators[one].target) in SHOWS}
        return views - {program.base(name) for name in (*read, *program.outputs)}

    def _settled(self, part: Segment) -> list[str]:
        """A library result may be a strided view; a kernel reads consecutive elements."""
        # On a GPU an attention reads queries, keys and values by their strides.
        strided = 3 if part.pattern == ATTENTION and self._program.symbolic else 0
        given = dict.fromkeys(map(self._program.base, part.inputs[strided:]))
        return [
            f"{self.text(name)} = {self.text(name)}.contiguous()"
            for name in given
            if name in self._library
        ]

    def kernel(self, part: Segment, kernel: RenderedSegment) -> list[str]:
        """Return the statements that call a kernel."""
        lines = [f"# {kernel.note}", *self._settled(part)]
        lines += [f"{self.text(name)} = {self._fresh(name, part.inputs)}" for name in part.outputs]
        given = (f"{self.text(name)}.data_ptr()" for name in (*part.inputs, *part.outputs))
        return [*lines, f"_{kernel.name}({', '.join(given)})"]

    def _fresh(self, name: str, inputs: Sequence[str]) -> str:
        """Return the expression of an unwritten tensor for the node `name`."""
        shape, dtype = self._program.nodes[name].shape, self._program.nodes[name].dtype
        for one in inputs:
            node = self._program.nodes[one]
            if (node.shape, node.dtype) == (shape, dtype) and node.kind != "view":
                # With cold caches 20 us less than sizes and a type cost to parse.
                return f"torch.empty_like({self.text(one)})"
        return f"torch.empty({shape}, dtype=torch.{dtype})"

    def _call(self, part: Segment) -> list[str]:
        assert part.anchor is not None
        operator = self._program.operators[part.anchor]
        self._library.add(part.anchor)
        return [f"{self.text(part.anchor)} = {self._expression(operator)}"]

    def _expression(self, operator: Operator) -> str:
        read = self._program.read(operator)
        arguments = [self._argument(argument, read) for argument in operator.args]
        if operator.target == "getitem":
            return f"{arguments[0]}[{arguments[1]}]"
        arguments += [f"{key}={self._argument(value, read)}" for key, value in operator.kwargs]
        if operator.target in _OWN_CALLS:
            return _OWN_CALLS[operator.target].format(*arguments)
        call = _CALLS.get(operator.target, f"torch.ops.aten.{operator.target}")
        return f"{call}({', '.join(arguments)})"

    def _argument(self, argument: Any, read: Mapping[str, str]) -> str:
        if isinstance(argument, Ref):
            return self.text(read[argument.name])
        if isinstance(argument, tuple):
            return f"[{', '.join(self._argument(item, read) for item in argument)}]"
        if isinstance(argument, str):
            if argument in _DTYPES:
                return f"torch.{argument}"
            return argument if argument.startswith("torch.") else repr(argument)
        if isinstance(argument, float) and not math.isfinite(argument):
            return f'float("{argument}")'
        return repr(argument)

    def text(self, name: str) -> str:
        """Return the Python expression of the node `name`."""
        node = self._program.nodes[name]
        if node.kind == "view":
            base = self._program.base(name)
            return self.reshaped(self.text(base), self._program.nodes[base].shape, node.shape)
        if node.kind == "value" and name not in self._settled_values:
            return self._value(self.values[name])
        return _local(name)

    def reshaped(self, text: str, shape: Shape, wanted: Shape) -> str:  # noqa: ARG002
        """Return the expression of a view of the tensor `text`."""
        return f"{text}.reshape({wanted})"

    def _value(self, value: Value) -> str:
        if value.kind == "input":
            if int(value.origin) >= len(self.arguments):
                raise NoRecipe("the forward takes a list of arguments: give each of them a name")
            return self.arguments[int(value.origin)]
        if value.kind == "constant" and value.data is not None:
            name = f"_{value.name}"
            numbers = ", ".join(self._argument(number, {}) for number in value.data)
            kind = f"dtype=torch.{value.dtype}"
            self.constants[name] = f"torch.tensor([{numbers}], {kind}).reshape({value.shape})"
            return self.constant(name)
        if not value.origin:
            raise NoRecipe(
                f"constant {value.name} of the reference cannot be written out: make it a buffer of the module"
            )
        return of_module(value.kind, value.origin)

    def constant(self, name: str) -> str:
        """Return the expression of a constant of the module."""
        return name

    def _result(self, name: str) -> str:
        text, base = self.text(name), self._program.base(name)
        if self._program.nodes[base].kind == "value":
            return f"{text}.clone()"
        return f"{text}.contiguous()" if self._has_gaps(base) else text

    def _has_gaps(self, name: str) -> bool:
        """Say whether a library's result is a part of a tensor, moved or not."""
        while name in self._library:
            target = packet(self._program.operators[name].target)
            if target in _PARTS:
                return True
            if target not in SHOWS and target != "getitem":
                break
            name = self._program.base(self._program.nodes[name].operands[0])
        return False
