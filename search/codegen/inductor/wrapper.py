"""Reads the Python that Inductor writes around its kernels, and says it in torch's own functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search.codegen.inductor import Uncaptured
from search.codegen.inductor.gpu_kernels import TritonKernel, launched, read_kernel
from search.codegen.inductor.native import CppKernel
from search.strides import contiguous

# What Inductor calls its own functions for, and torch's function that does the same.
_EXTERN = {name: f"torch.{name}" for name in ("mm", "bmm", "addmm", "baddbmm", "convolution")}
_EXTERN["bias_addmm"] = "torch.addmm"
_SKIPPED = ("assert_size_stride", "assert_alignment", "args.clear", "torch.cuda.set_device",
            "run_intermediate_hooks")  # fmt: skip
_CALLED = ("torch.ops.", "aten.", "torch.empty", "torch.device")
_NUMBERS = {"inf": 'float("inf")', "nan": 'float("nan")'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """Inductor's module, read.

    Attributes:
        arguments: names of what ``call`` is given, in order.
        body: its statements, between the arguments and the return.
        results: the expressions that it returns.
    """

    kernels: tuple[CppKernel, ...]
    triton: tuple[TritonKernel, ...]
    arguments: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    results: tuple[ast.expr, ...]


Config = Mapping[str, Any]
Writes = Mapping[str, Sequence[tuple[Sequence[int], str]]]


def read(
    code: str,
    stubs: Writes | None = None,
    configs: Mapping[str, Sequence[Config]] | None = None,
    *,
    python: bool = False,
) -> Wrapper:
    """Read Inductor's module.

    Args:
        configs: settings of its Triton kernels by name.
        stubs: operators of the namespace ``kb`` that are kernels of the candidate's own: shapes and types of
            what each writes.
        python: those are functions that take tensors and return them.

    Raises:
        Uncaptured: it has something that this reader does not know.
    """
    tree = ast.parse(code)
    kernels = [
        _kernel(node.targets[0].id, node.value, configs or {})
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith("async_compile.")
    ]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if len(calls) != 1:
        raise Uncaptured(f"its module has {len(calls)} functions named call, expected one")
    return _Reader(kernels, stubs or {}, python=python).read(calls[0])


def _kernel(
    name: str, call: ast.Call, configs: Mapping[str, Sequence[Config]]
) -> CppKernel | TritonKernel:
    kind = ast.unparse(call.func)
    if kind == "async_compile.triton":
        return read_kernel(name, ast.literal_eval(call.args[1]), configs.get(name, ()))
    if kind != "async_compile.cpp_pybinding":
        raise Uncaptured(f"it has a kernel made by {kind}, which is not read")
    types, source = (ast.literal_eval(argument) for argument in call.args)
    return CppKernel(name=name, types=tuple(types), source=source)


class _Reader(ast.NodeTransformer):
    def __init__(
        self, kernels: Sequence[CppKernel | TritonKernel], stubs: Writes, *, python: bool
    ) -> None:
        self._stubs = stubs
        self._python = python
        self._kernels = tuple(one for one in kernels if isinstance(one, CppKernel))
        self._called = {kernel.name for kernel in self._kernels}
        self._triton = {one.name: one for one in kernels if isinstance(one, TritonKernel)}
        self._arguments: tuple[str, ...] = ()
        self._libraries: set[str] = set()  # convolutions that the library computes

    def read(self, call: ast.FunctionDef) -> Wrapper:
        """Return the function's statements in torch's words."""
        body: list[ast.stmt] = []
        results: tuple[ast.expr, ...] | None = None
        for statement in _flat(call.body):
            match statement:
                case ast.Assign(targets=[ast.Tuple() as names], value=ast.Name(id="args")):
                    self._arguments = tuple(ast.unparse(name) for name in names.elts)
                case ast.Return(value=ast.Tuple() as values):
                    results = tuple(self._expression(value) for value in values.elts)
                case ast.Delete():
                    body += self._deleted(statement)
                case ast.Expr(value=ast.Call(func=ast.Name(id="assert_size_stride")) as made) if (
                    ast.unparse(made.args[0]) in self._libraries
                ):
                    body.append(_laid_out(*made.args[:3]))
                case ast.Expr(value=ast.Call() as made) if ast.unparse(made.func) in _SKIPPED:
                    pass
                case ast.Assign(
                    value=ast.Call(func=ast.Name(id="get_raw_stream" | "copy_if_misaligned"))
                ):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made) if (
                    stub := _stub(made)
                ):
                    body += self._kernel_of_own(name, stub, made.args)
                case ast.Assign(targets=[ast.Name()]) | ast.Expr(value=ast.Call()):
                    self._note_library(statement)
                    body.append(self.visit(statement))
                case _:
                    raise Uncaptured(f"unknown statement: {_short(statement)}")
        if results is None:
            raise Uncaptured("its function call returns no tuple")
        return Wrapper(
            kernels=self._kernels,
            triton=tuple(self._triton.values()),
            arguments=self._arguments,
            body=tuple(body),
            results=results,
        )

    def _note_library(self, statement: ast.stmt) -> None:
        """Note a tensor that the library made, whose strides are its own choice."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)) if (
                ast.unparse(called) == "extern_kernels.convolution"
            ):
                self._libraries.add(name)

    def _expression(self, node: ast.expr) -> ast.expr:
        made: ast.expr = self.visit(node)
        return made

    def _deleted(self, statement: ast.Delete) -> list[ast.stmt]:
        kept = [
            target for target in statement.targets if ast.unparse(target) not in self._arguments
        ]
        return [ast.Delete(targets=kept)] if kept else []

    def _kernel_of_own(self, name: str, stub: str, given: Sequence[ast.expr]) -> list[ast.stmt]:
        """Return the statements that call a recipe's kernel: it writes into new tensors, or returns them."""
        if self._python:
            made = _call(stub, [self._expression(one) for one in given])
            return [ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=made)]
        new = ", ".join(
            f"torch.empty({tuple(shape)}, dtype=torch.{dtype})"
            for shape, dtype in self._stubs[stub]
        )
        read = [_call_method(self._expression(one), "data_ptr") for one in given]
        written = (f"{name}[{at}].data_ptr()" for at in range(len(self._stubs[stub])))
        call = _call(f"_{stub}", [*read, *map(_parsed, written)])
        return [ast.parse(f"{name} = ({new},)").body[0], ast.Expr(value=call)]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in _NUMBERS:
            return _parsed(_NUMBERS[node.id])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = ast.unparse(node.func)
        given = [self._expression(argument) for argument in node.args]
        named = {word.arg or "": self._expression(word.value) for word in node.keywords}
        if called.removesuffix(".run") in self._triton:
            return launched(self._triton[called.removesuffix(".run")], given)
        if called in self._called:
            return _call(f"_{called}", [_call_method(one, "data_ptr") for one in given])
        if called.startswith("empty_strided_"):
            return _empty(called, given)
        if called == "reinterpret_tensor":
            return _view(given)
        return _call(_torchs(called), given, named)


def _laid_out(tensor: ast.expr, shape: ast.expr, strides: ast.expr) -> ast.stmt:
    """Return the statement that gives a tensor the strides with which the kernels behind it count."""
    name, wanted = ast.unparse(tensor), ast.unparse(strides)
    fresh = f"torch.empty_strided({ast.unparse(shape)}, {wanted}, dtype={name}.dtype, device={name}.device)"
    return ast.parse(
        f"{name} = {name} if {name}.stride() == {wanted} else {fresh}.copy_({name})"
    ).body[0]


def _torchs(called: str) -> str:
    """Return torch's name of a function that Inductor calls."""
    name = called.removeprefix("extern_kernels.")
    if called == "device":
        return "torch.device"
    if name != called and name in _EXTERN:
        return _EXTERN[name]
    if called.startswith("aten."):
        return f"torch.ops.{called}"
    if called.startswith(_CALLED):
        return called
    raise Uncaptured(f"it calls {called}, which is not read")


def _stub(call: ast.Call) -> str:
    """Return the name of the kernel that a call of the namespace ``kb`` stands for, or nothing."""
    called = ast.unparse(call.func)
    return called.removeprefix("torch.ops.kb.").split(".")[0] if called.startswith("torch.ops.kb.") else ""  # fmt: skip


def _flat(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with those inside ``with`` in their place."""
    found: list[ast.stmt] = []
    for statement in body:
        found += _flat(statement.body) if isinstance(statement, ast.With) else [statement]
    return found


def _empty(called: str, given: Sequence[ast.expr]) -> ast.expr:
    """Return the expression of an unwritten tensor of a shape and strides."""
    if called not in ("empty_strided_cpu", "empty_strided_cuda"):
        raise Uncaptured(f"it calls {called}, which is not read")
    named = {"dtype": given[2]}
    if called == "empty_strided_cuda":
        named["device"] = _parsed('"cuda"')
    if ast.literal_eval(given[1]) == contiguous(ast.literal_eval(given[0])):
        return _call("torch.empty", [given[0]], named)
    return _call("torch.empty_strided", [given[0], given[1]], named)


def _view(given: Sequence[ast.expr]) -> ast.expr:
    """Return the expression of a view; its offset counts from where the tensor begins."""
    tensor, shape, strides, offset = given
    if ast.unparse(offset) == "0":
        return _call("torch.as_strided", [tensor, shape, strides])
    begin = _call_method(tensor, "storage_offset")
    return _call(
        "torch.as_strided",
        [tensor, shape, strides, ast.BinOp(left=begin, op=ast.Add(), right=offset)],
    )


def _call(
    name: str, given: Sequence[ast.expr], named: Mapping[str, ast.expr] | None = None
) -> ast.expr:
    words = [ast.keyword(arg=key, value=value) for key, value in (named or {}).items()]
    return ast.Call(func=_parsed(name), args=list(given), keywords=words)


def _call_method(tensor: ast.expr, name: str) -> ast.expr:
    return ast.Call(func=ast.Attribute(value=tensor, attr=name, ctx=ast.Load()), args=[], keywords=[])  # fmt: skip


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _short(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:120]
