"""The reference as a graph of operators, and what one of them costs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from kb.errors import TaskError
from search.costs.graph import Operator, OperatorGraph, Ref, Value
from search.costs.regions import inline_regions
from search.costs.value_checks import answered, checks
from search.reference import Problem

RECURRENT = ("gru", "lstm", "rnn_tanh", "rnn_relu")  # the library's layers, which scan over steps
_KINDS = {
    InputKind.USER_INPUT: "input",
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}
_SMALL_CONSTANT = 1024
VIEWS = {
    "view", "reshape", "permute", "transpose", "t", "flatten", "unflatten", "squeeze", "unsqueeze",
    "expand", "slice", "select", "getitem", "contiguous", "detach", "alias", "chunk", "split",
    "split_with_sizes", "unbind", "narrow", "movedim", "numpy_T", "to", "dropout", "identity",
}  # fmt: skip
# Operators that return a view or a copy, as strides and types ask for.
_MAY_COPY = {"contiguous", "reshape", "reshape_as", "flatten", "ravel", "to", "type_as"}
_FAMILIES = {
    "convolution": ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                    "conv_transpose3d", "convolution"),
    "matmul": ("mm", "bmm", "matmul", "addmm", "baddbmm", "linear", "einsum", "dot", "mv",
               "bilinear", "chain_matmul", "linalg_multi_dot"),
    "attention": ("scaled_dot_product_attention",),
    "pooling": ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
                "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
                "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "max_pool2d_with_indices",
                "max_pool3d_with_indices"),
    "normalization": ("layer_norm", "native_layer_norm", "batch_norm", "group_norm",
                      "instance_norm", "rms_norm", "local_response_norm", "native_group_norm",
                      "native_batch_norm", "_native_batch_norm_legit"),
    "softmax": ("softmax", "log_softmax", "logsumexp"),
    "reduction": ("sum", "mean", "amax", "amin", "max", "min", "prod", "norm", "var", "std",
                  "argmax", "argmin", "linalg_vector_norm", "any", "all", "var_mean", "aminmax", "cdist",
                  "cosine_similarity", "std_mean", "nansum", "nanmean", "dist", "pdist", "trapz", "trapezoid"),
    "scan": ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "cumulative_trapezoid", *RECURRENT),
    "gather-scatter": ("gather", "scatter", "scatter_add", "index_select", "index", "index_put",
                       "embedding", "embedding_bag", "take", "masked_fill", "index_add", "index_reduce",
                       "scatter_reduce", "take_along_dim", "bincount", "histc"),
    "loss": ("mse_loss", "cross_entropy_loss", "nll_loss", "nll_loss_nd", "smooth_l1_loss", "l1_loss",
             "huber_loss", "kl_div", "cosine_embedding_loss", "hinge_embedding_loss",
             "triplet_margin_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
             "poisson_nll_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
             "soft_margin_loss"),
    "sort": ("sort", "topk", "argsort", "kthvalue", "median", "nanmedian", "quantile", "nanquantile"),
}  # fmt: skip
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names}
# Operations an element costs, so that ranking by cost means something; only sums of products,
# which decide whether a task is bound by arithmetic, are counted exactly.
_PER_ELEMENT = {"softmax": 4.0, "normalization": 5.0, "scan": 1.0, "reduction": 1.0, "sort": 10.0}
# What references were traced with, and their graphs, as long as they live.
_TRACED: WeakKeyDictionary[torch.nn.Module, tuple[list[Any], OperatorGraph]] = WeakKeyDictionary()


def operator_graph(problem: Problem) -> OperatorGraph:
    """Trace the reference of `problem`; what was traced in this process before is not traced again.

    Raises:
        TaskError: the reference cannot be traced, with the first line of the reason.
    """
    given = [
        (value.shape, value.stride(), value.dtype) if isinstance(value, torch.Tensor) else value
        for value in problem.inputs
    ]
    before, graph = _TRACED.get(problem.model, (None, None))
    if graph is not None and before == given:
        return graph
    graph = _trace_reference(problem)
    _TRACED[problem.model] = (given, graph)
    return graph


def _trace_reference(problem: Problem) -> OperatorGraph:
    try:
        return trace(problem.model, tuple(problem.inputs))
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise TaskError(
            f"{problem.task.reference}: torch.export cannot trace the forward ({first[:200]}): write it without "
            "control flow that depends on values"
        ) from error


def trace(model: torch.nn.Module, inputs: tuple[Any, ...]) -> OperatorGraph:
    """Return what `model` does to `inputs`; tensors without memory (`meta`) will do.

    `torch.export` without decompositions keeps composite operators (linear, layer_norm, softmax)
    whole, which is how knowledge speaks of them. It raises whatever it likes. What is written into memory that is
    read later through another view is written out of place, unless it is that of an input, a parameter or a buffer.
    Checks of values that only raise are left out.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program, checked = _exported(model, inputs)
        nodes = [*program.graph.nodes]
        if _writes_behind(nodes) and not any(map(_shows_silently, nodes)):
            other = program.run_decompositions({})
            if all(
                spec.kind is OutputKind.USER_OUTPUT for spec in other.graph_signature.output_specs
            ):
                program = other
    inline_regions(program.graph_module)
    return replace(_convert(program, inputs, model), checked=checked)


def _exported(model: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, bool]:
    """Return the exported program, and whether checks of values were left out of it."""
    try:
        return torch.export.export(model, inputs, strict=False), False
    except GuardOnDataDependentSymNode:
        known = not any(isinstance(x, torch.Tensor) and x.is_meta for x in inputs)
        answers = checks(model, inputs) if known else []
        if not answers:
            raise
    with answered(answers):
        program = torch.export.export(model, inputs, strict=False)
    program.graph.eliminate_dead_code()
    return program, True


def _writes_behind(nodes: Sequence[Any]) -> bool:
    """Tell whether an operator writes into a tensor that is read later through another view of its memory."""
    place = {node: at for at, node in enumerate(nodes)}
    for at, node in enumerate(nodes):
        if not _is_operator(node) or not node.target._schema.is_mutable or not node.args:
            continue
        into = node.args[0]
        memory = _memory(into)
        read = (one for later in nodes[at + 1 :] for one in later.all_input_nodes)
        if memory is not None and any(
            place[one] < at and one is not into and _memory(one) == memory for one in read
        ):
            return True
    return False


def _shows_silently(node: Any) -> bool:
    """Tell whether a result is a view though the operator's schema does not say so: what is written into it would be lost."""
    if not _is_operator(node) or any(one.alias_info for one in node.target._schema.returns):
        return False
    given = {_memory(one) for one in node.all_input_nodes} - {None}
    made = node.meta.get("val")
    listed = made if isinstance(made, (list, tuple)) else [made]
    tensors = (one for one in listed if isinstance(one, torch.Tensor))
    return any(int(one.untyped_storage()._cdata) in given for one in tensors)


def _memory(node: Any) -> int | None:
    """Return what tells the memory of a tensor, None of what is none."""
    meta = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return int(meta.untyped_storage()._cdata) if isinstance(meta, torch.Tensor) else None


def _is_operator(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)


def _convert(program: Any, inputs: tuple[Any, ...], model: torch.nn.Module) -> OperatorGraph:
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    values: list[Value] = []
    operators: list[Operator] = []
    literals: dict[str, Any] = {}
    outputs: tuple[str, ...] = ()
    position = 0
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT:
                if not isinstance(inputs[position], torch.Tensor):
                    literals[node.name] = inputs[position]
                    position += 1
                    continue
                values.append(_value(node, "input", str(position), None))
                position += 1
            else:
                data = program.constants.get(spec.target) if spec.target else None
                kind = _KINDS.get(spec.kind, "constant")
                found = kind != "constant" or _holds(model, spec.target)
                values.append(_value(node, kind, spec.target if found else None, data))
        elif node.op == "output":
            made = zip(node.args[0], program.graph_signature.output_specs, strict=True)
            outputs = tuple(
                arg.name
                for arg, spec in made
                if spec.kind.name == "USER_OUTPUT" and isinstance(arg, torch.fx.Node)
            )
        else:
            operators.append(_operator(node, literals))
    single = not str(program.call_spec.out_spec).startswith("TreeSpec(tuple") and (
        program.call_spec.out_spec.is_leaf()
    )
    return OperatorGraph(
        values=tuple(values), operators=tuple(operators), outputs=outputs, single_output=single
    )


def _holds(model: Any, path: str | None) -> bool:
    """Tell whether a constant is an attribute; the others torch.export gives names of its own."""
    for part in (path or "").split("."):
        model = getattr(model, part, None)
    return isinstance(model, torch.Tensor)


def _value(node: Any, kind: Any, origin: str | None, data: Any) -> Value:
    meta = node.meta["val"]
    known = isinstance(data, torch.Tensor) and not (data.is_meta or data.is_complex())
    small = known and data.numel() <= _SMALL_CONSTANT
    return Value(
        name=node.name,
        kind=kind,
        origin=origin or "",
        shape=tuple(int(size) for size in meta.shape),
        dtype=_dtype(meta.dtype),
        data=tuple(data.flatten().tolist()) if small else None,
        contiguous=meta.is_contiguous(),
        distinct=_distinct(meta),
    )


def _distinct(meta: torch.Tensor) -> int | None:
    """Return how many elements have a place of their own at least, None where all have."""
    count, reach = 1, 0
    for step, size in sorted(zip(meta.stride(), meta.shape, strict=True)):
        if step > reach:
            count, reach = count * int(size), reach + int(step) * (int(size) - 1)
    return count if count < meta.numel() else None


def _operator(node: Any, literals: dict[str, Any]) -> Operator:
    meta = node.meta.get("val")
    first = meta[0] if isinstance(meta, (tuple, list)) and meta else meta
    tensor = isinstance(first, torch.Tensor)
    name = getattr(node.target, "__name__", str(node.target))
    return Operator(
        name=node.name,
        target=str(node.target).removeprefix("aten.") if _is_operator(node) else name,
        args=tuple(_literal(arg, literals) for arg in node.args),
        kwargs=tuple((key, _literal(arg, literals)) for key, arg in node.kwargs.items()),
        shape=tuple(int(size) for size in first.shape) if tensor else (),
        dtype=_dtype(first.dtype) if tensor else type(first).__name__,
        copies=name.split(".")[0] in _MAY_COPY and not _shares(node),
    )


def _shares(node: Any) -> bool:
    """Tell whether a result lies in the memory of the first argument."""
    return _memory(node) == _memory(node.args[0])


def _literal(arg: Any, literals: dict[str, Any]) -> Any:
    if isinstance(arg, torch.fx.Node):
        return literals[arg.name] if arg.name in literals else Ref(arg.name)
    if isinstance(arg, (list, tuple)):
        return tuple(_literal(item, literals) for item in arg)
    if isinstance(arg, torch.dtype):
        return _dtype(arg)
    if arg is None or isinstance(arg, (bool, int, float, str)):
        return arg
    return str(arg)


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def operator_name(operator: Operator) -> str:
    """Return the operator's plain name: ``conv2d`` for ``conv2d.default``, ``add`` for ``add_``."""
    return operator.target.split(".")[0].removesuffix("_") or operator.target


def family(operator: Operator) -> str | None:
    """Return the operator's family as knowledge records name it, None for a mere view."""
    name = operator_name(operator)
    if name in _FAMILY:
        return _FAMILY[name]
    return None if name in VIEWS or (not operator.shape and "get" in name) else "elementwise"


def family_of(name: str) -> str | None:
    """Return the family of an operator's plain name, None for one that no table names."""
    return _FAMILY.get(name)


def _indices(equation: str, shapes: list[tuple[int, ...]]) -> int:
    """Return the product of the extents of all that an einsum runs over."""
    terms = equation.replace(" ", "").split("->")[0].split(",")
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        front, dots, back = term.partition("...")
        middle = len(shape) - len(front) - len(back)
        names = (*front, *(f"...{at - middle}" for at in range(middle if dots else 0)), *back)
        for name, extent in zip(names, shape, strict=True):
            extents[name] = max(extents.get(name, 1), extent)
    return math.prod(extents.values())


def operands(operator: Operator) -> list[str]:
    """Return the names of the values that an operator takes, in their order."""
    found: list[str] = []

    def walk(arg: Any) -> None:
        if isinstance(arg, Ref):
            found.append(arg.name)
        elif isinstance(arg, tuple):
            for item in arg:
                walk(item)

    walk(operator.args)
    walk(tuple(value for _, value in operator.kwargs))
    return found


def nbytes(entry: Value | Operator) -> int:
    """Return bytes of a tensor."""
    dtype = getattr(torch, entry.dtype, None)
    size = dtype.itemsize if isinstance(dtype, torch.dtype) else 8
    return math.prod(entry.shape) * size


def flops_of(operator: Operator, graph: OperatorGraph) -> float:
    """Return operations of one call; a sum of products counts two per term."""
    kind = family(operator) or ""
    shapes = [graph.shape(name) for name in operands(operator)]
    out = math.prod(operator.shape)
    if kind in ("convolution", "matmul", "attention") and len(shapes) > 1:
        return 2.0 * products_of(operator, kind, shapes)
    if kind == "pooling":
        kernel = operator.args[1] if len(operator.args) > 1 else 1
        window = math.prod(kernel) if isinstance(kernel, tuple) else int(kernel)
        return float(out * window)
    read = max((math.prod(shape) for shape in shapes), default=out)
    return _PER_ELEMENT.get(kind, 1.0) * max(read, out)


def products_of(operator: Operator, kind: str, shapes: list[tuple[int, ...]]) -> float:
    """Count the multiplications that end in a sum."""
    name, out = operator_name(operator), math.prod(operator.shape)
    if kind == "attention":
        return 2.0 * out * shapes[1][-2]
    if kind == "convolution":
        weight = shapes[1]
        transposed = "transpose" in name
        return float((math.prod(shapes[0]) if transposed else out) * math.prod(weight[1:]))
    if name == "einsum" and len(shapes) == 2:
        return float(_indices(str(operator.args[0]), shapes))
    first = shapes[1] if name in {"addmm", "baddbmm"} else shapes[0]
    return float(out * (first[-1] if first else 1))
