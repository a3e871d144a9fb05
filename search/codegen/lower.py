"""From the operator graph to primitive nodes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from kb.errors import NoRecipe
from search.codegen.canonical import canonical
from search.codegen.ir import INTEGERS, SHORT, IrBuilder, IrNode, Unsupported, refs, writes
from search.codegen.operators.arithmetic import ARITHMETIC
from search.codegen.operators.losses import LOSSES
from search.codegen.operators.pointwise import POINTWISE, VIEWS, Rule
from search.codegen.operators.positions import positions
from search.codegen.operators.reductions import reductions
from search.costs.graph import Operator, OperatorGraph, Ref

RULES: dict[str, Rule] = {
    **POINTWISE,
    **ARITHMETIC,
    **reductions(POINTWISE),
    **LOSSES,
    **positions(POINTWISE),
}
# Operators of several results, each a part of their first argument's memory.
PIECES = frozenset({
    "chunk", "split", "split_with_sizes", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes",
})  # fmt: skip
# The same of several arguments: each result is the memory of the one in its place.
_SEVERAL = frozenset({"meshgrid", "broadcast_tensors", "atleast_1d", "atleast_2d", "atleast_3d"})
# Operators whose results are, or may be, their first argument's memory.
SHOWS = frozenset({
    *VIEWS, *PIECES, *_SEVERAL, "permute", "transpose", "t", "numpy_T", "mT", "mH", "matrix_H", "adjoint", "movedim",
    "moveaxis", "swapaxes", "swapdims", "ravel", "select", "slice", "narrow", "diagonal", "linalg_diagonal", "expand",
    "expand_as", "broadcast_to", "unfold", "as_strided", "contiguous", "detach", "alias", "positive", "detach_", "to",
    "float", "type_as", "dropout", "feature_dropout", "alpha_dropout", "lift_fresh", "real", "imag", "conj", "_conj",
    "resolve_conj", "resolve_neg", "view_as_real", "view_as_complex",
})  # fmt: skip
# Operators that only check or mark, and return nothing that is used.
_NO_EFFECT = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size")


@dataclass(frozen=True, kw_only=True)
class LoweredProgram:
    """What the reference computes, in primitive nodes.

    Attributes:
        nodes: by name, in execution order.
        outputs: nodes that the forward returns.
        symbolic: kernels read sizes at run time.
    """

    graph: OperatorGraph
    nodes: Mapping[str, IrNode]
    outputs: tuple[str, ...]
    symbolic: bool = False

    @cached_property
    def operators(self) -> Mapping[str, Operator]:
        """Operators by name."""
        return {operator.name: operator for operator in self.graph.operators}

    @cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """Nodes that read each node."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for operand in dict.fromkeys(node.operands):
                found[operand].append(node.name)
        return {name: tuple(users) for name, users in found.items()}

    def read(self, operator: Operator) -> Mapping[str, str]:
        """Return the node behind each value that `operator`, which stayed whole, reads at its turn.

        Later ones may have written into it.
        """
        found = (ref.name for ref in refs((operator.args, operator.kwargs)))
        return dict(zip(found, self.nodes[operator.name].operands, strict=True))

    def base(self, name: str) -> str:
        """Return the node whose elements the view `name` shows."""
        while self.nodes[name].kind == "view":
            name = self.nodes[name].operands[0]
        return name


def packet(target: str) -> str:
    """Return the operator's name without overload."""
    return target.split(".", maxsplit=1)[0]


def lower(
    graph: OperatorGraph, *, symbolic: bool = False, whole: Set[str] = frozenset()
) -> LoweredProgram:
    """Express `graph` in primitive nodes; what no rule expresses stays opaque.

    Args:
        symbolic: for kernels that read sizes at run time.
        whole: operators that stay opaque though a rule expresses them.

    Raises:
        NoRecipe: an operator writes into its argument, and no rule writes it out of place; or something is
            no call of an operator, such as a region under autocast.
    """
    for operator in graph.operators:
        own = operator.target == "getitem" or operator.target.count(".") == 1
        if not own and operator.args:
            raise NoRecipe(_no_operator(operator.target))
        if any(name == "out" for name, _ in operator.kwargs):
            raise NoRecipe(_written_into(operator))
    while True:
        program = _lowered(graph, symbolic, whole)
        leaving = _leaving_masks(program)
        if leaving <= whole:
            return program
        whole = whole | leaving


def own_masks(program: LoweredProgram) -> LoweredProgram:
    """Return `program` with a copy of a mask, and of what is made from nothing, for each node that reads it.

    No kernel writes truth values, so that one which two kernels read is computed in both. Where each has one reader,
    it is `program` itself.
    """
    nodes, copies = dict(program.nodes), dict[str, list[IrNode]]()
    users = {name: list(found) for name, found in program.users.items()}
    for name in reversed(list(nodes)):
        node = nodes[name]
        if name in program.outputs or not _is_cheap(nodes, name):
            continue
        for number, user in enumerate(users[name][1:], 1):
            copy = replace(node, name=f"{name}_own{number}")
            operands = (copy.name if one == name else one for one in nodes[user].operands)
            nodes[user] = replace(nodes[user], operands=tuple(operands))
            nodes[copy.name] = copy
            copies.setdefault(name, []).append(copy)
            for operand in dict.fromkeys(node.operands):
                users[operand].append(copy.name)
    if not copies:
        return program
    ordered = [
        name for one in program.nodes for name in (one, *(c.name for c in copies.get(one, ())))
    ]
    return replace(program, nodes={name: nodes[name] for name in ordered})


def _is_cheap(nodes: Mapping[str, IrNode], name: str) -> bool:
    node = nodes[name]
    if node.kind == "view":
        return _is_cheap(nodes, node.operands[0])
    return node.kind == "map" and (node.mask or not node.operands)


def _no_operator(name: str) -> str:
    told = f"{name} is no operator of torch that a recipe could compute or call: write it out"
    if name == "wrap_with_autocast":
        told = (
            "the forward opens torch.autocast, whose conversions no recipe follows: write them out"
            " (x.bfloat16(), y.float())"
        )
    return f"{told}, or configure a model (model: in the task file)"


def _written_into(operator: Operator) -> str:
    return (
        f"operator {operator.target} writes into its argument, which no recipe does:"
        " write it out of place, or configure a model"
    )


def _lowered(graph: OperatorGraph, symbolic: bool, whole: Set[str]) -> LoweredProgram:
    """Lower `graph`, the operators named in `whole` left as they are."""
    graph = canonical(graph, whole)
    builder = IrBuilder(graph, symbolic=symbolic)
    for value in graph.values:
        builder.nodes[value.name] = IrNode(
            name=value.name,
            kind="value",
            shape=value.shape,
            usable=value.dtype in ("float32", "bool", *SHORT, *INTEGERS),
            integer=value.dtype in INTEGERS,
            mask=value.dtype == "bool",
            dtype=value.dtype,
        )
    for operator in graph.operators:
        _lower(builder, operator, whole)
    outputs = tuple(builder.resolve(name) for name in graph.outputs)
    return LoweredProgram(
        graph=graph,
        nodes=_reached(builder.nodes, (*outputs, *builder.effects)),
        outputs=outputs,
        symbolic=symbolic,
    )


def _leaving_masks(program: LoweredProgram) -> set[str]:
    """Return the operators whose truth values are returned, or read by an operator that stays whole.

    And those whose integers are, or what is made of nothing: no kernel writes such alone.
    """
    found = set()
    for name, node in program.nodes.items():
        if node.kind == "map" and (node.mask or node.integer or not node.operands):
            shown = _shown(program, name)
            readers = {program.nodes[user].kind for one in shown for user in program.users[one]}
            if shown & {*program.outputs} or "opaque" in readers:
                found.add(node.operator)
    return found


def _shown(program: LoweredProgram, name: str) -> set[str]:
    """Return a node and its views."""
    views = (user for user in program.users[name] if program.nodes[user].kind == "view")
    return {name}.union(*(_shown(program, view) for view in views))


def _lower(builder: IrBuilder, operator: Operator, whole: Set[str]) -> None:
    name = packet(operator.target)
    if name in _NO_EFFECT:
        return
    if name == "detach_":  # it writes nothing
        builder.begin(operator)
        builder.commit(builder.resolve(refs(operator.args)[0].name))
        return
    in_place = writes(name)
    written = in_place and name[:-1] in RULES
    rule = None if operator.name in whole else RULES.get(name[:-1] if written else name)
    builder.begin(operator)
    try:
        if rule is None:
            raise Unsupported
        result = _expressed(builder, operator, rule)
    except (Unsupported, ValueError, IndexError, KeyError, TypeError):
        if _keeps_count(builder, operator):
            builder.opaque(operator)
            builder.effects.append(operator.name)
            return
        if in_place:
            raise NoRecipe(_written_into(operator)) from None
        builder.opaque(operator)
        return
    builder.commit(result.name)
    if written:
        into = refs(operator.args)[0].name
        if _is_shown(builder, operator, into):
            raise NoRecipe(
                f"operator {operator.target} writes into what is read later through another view, which no recipe"
                " follows: write it out of place, or configure a model"
            )
        builder.replace(into, operator.name)


def _expressed(builder: IrBuilder, operator: Operator, rule: Rule) -> IrNode:
    """Return the node that `rule` makes of `operator`.

    Answers of two bytes are allowed the roundings of their type, so that values on the way to them need not
    have these. Where all answers are float32, a conversion to two bytes means its rounding, and stays whole.

    Raises:
        Unsupported: it makes none that can be trusted.
    """
    short = operator.dtype in SHORT
    answers = (builder.dtypes[name] for name in builder.graph.outputs)
    if short and not any(dtype in SHORT for dtype in answers):
        raise Unsupported
    computed = replace(operator, dtype="float32") if short else operator
    result = rule(builder, computed)
    # A rule that misread its arguments must not be trusted with them.
    dtype = "bool" if result.mask else result.dtype if result.integer else "float32"
    if (result.shape, dtype) != (operator.shape, computed.dtype):
        raise Unsupported
    return builder.stored(result, operator.dtype)


def _is_shown(builder: IrBuilder, operator: Operator, into: str) -> bool:
    """Say whether what `operator` writes into is read later under a name that shows it otherwise."""
    at = builder.graph.operators.index(operator)
    root: dict[str, str] = {}
    for one in builder.graph.operators[:at]:
        name, given = packet(one.target), refs(one.args)
        if name == "getitem":
            several = builder.operators[given[0].name]
            name, among = packet(several.target), several.args[0]
            given = refs(among[one.args[1]]) if isinstance(among, tuple) else given
        if given and not one.copies and (name in SHOWS or writes(name)):
            root[one.name] = root.get(given[0].name, given[0].name)
    memory, node = root.get(into, into), builder.resolve(into)
    others = [name for name, base in root.items() if memory in (base, name)]
    later = [
        one for one in builder.graph.operators[at + 1 :] if packet(one.target) not in _NO_EFFECT
    ]
    read = {ref.name for one in later for ref in refs((one.args, one.kwargs))}
    read.update(builder.graph.outputs)
    return any(builder.resolve(name) != node for name in (memory, *others) if name in read)


def _keeps_count(builder: IrBuilder, operator: Operator) -> bool:
    """Say whether `operator` only adds to a number that nothing reads, such as batches seen."""
    first = operator.args[0] if operator.args else None
    values = {value.name: value for value in builder.graph.values}
    if packet(operator.target) != "add_" or not isinstance(first, Ref) or first.name not in values:
        return False
    value = values[first.name]
    others = (entry for entry in builder.graph.operators if entry.name != operator.name)
    read = any(ref == first for entry in others for ref in refs((entry.args, entry.kwargs)))
    returned = first.name in builder.graph.outputs or operator.name in builder.graph.outputs
    return value.kind == "buffer" and value.dtype in INTEGERS and not read and not returned


def _reached(nodes: Mapping[str, IrNode], outputs: tuple[str, ...]) -> dict[str, IrNode]:
    wanted = set(outputs)
    for name in reversed(list(nodes)):
        if name in wanted:
            wanted.update(nodes[name].operands)
    return {name: node for name, node in nodes.items() if name in wanted}


def is_view(operator: Operator) -> bool:
    """Say whether `operator` moves nothing."""
    return packet(operator.target) in (*VIEWS, "permute", "transpose", "t", "numpy_T", "getitem")
