"""Operators that are products with something around them, written out: einsum, sums with a product, cells, gates."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import combinations
from typing import Any, Protocol

from search.codegen.ir import Shape
from search.codegen.operators.new import new_operator
from search.codegen.operators.pointwise import arguments
from search.costs.graph import Operator, Ref


class Shapes(Protocol):
    """What is known of a graph's tensors."""

    def shape(self, value: Any) -> Shape:
        """Return the shape of a reference, () of what is none."""
        ...

    def made_by(self, value: Any, *packets: str) -> Operator | None:
        """Return the operator that computes `value`, if it is one of `packets`."""
        ...


class _Steps:
    """The operators that stand in the place of one, each named after it."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.made: list[Operator] = []

    def add(self, target: str, args: tuple[Any, ...], shape: Shape) -> Ref:
        """Append an operator and return its result."""
        name = f"{self._operator.name}_part{len(self.made)}"
        self.made.append(new_operator(name, target, args, shape))
        return Ref(name)

    def permuted(self, value: Ref, shape: Shape, order: Sequence[int]) -> Ref:
        """Return `value` with its dimensions in another order."""
        if list(order) == sorted(order):
            return value
        return self.add(
            "permute.default", (value, tuple(order)), tuple(shape[axis] for axis in order)
        )

    def viewed(self, value: Ref, old: Shape, new: Shape) -> Ref:
        """Return `value` in another shape."""
        return value if old == new else self.add("reshape.default", (value, new), new)

    def named(self, value: Ref) -> tuple[Operator, ...]:
        """Return the operators with the last result under the name of the operator in whose place they stand."""
        name, shape = self._operator.name, self._operator.shape
        return (*self.made, new_operator(name, "alias.default", (value,), shape))


def einsum_product(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """An einsum as products of matrices, or of batches of them: of two tensors after the other, the least results first."""
    equation, listed = str(operator.args[0]).replace(" ", ""), operator.args[1]
    given, arrow, made = equation.partition("->")
    terms = given.split(",")
    if not 2 <= len(terms) == len(listed) or "." in equation or not arrow:
        return None
    sizes = _sizes(terms, [graph.shape(value) for value in listed])
    if sizes is None or any(len(set(term)) != len(term) for term in (*terms, made)):
        return None
    if len(terms) == 2 and _is_plain(terms, made):
        return (new_operator(operator.name, "matmul.default", tuple(listed), operator.shape),)
    steps, factors = _Steps(operator), [*zip(terms, listed, strict=True)]
    while len(factors) > 1:
        pairs = combinations(range(len(factors)), 2)
        pair = min(
            pairs, key=lambda two: _cost([factors[at][0] for at in two], factors, made, sizes)
        )
        left, right = (factors[at] for at in pair)
        factors = [one for at, one in enumerate(factors) if at not in pair]
        wanted = dict.fromkeys([*made, *(label for term, _ in factors for label in term)])
        factors.append(_contracted(steps, left, right, [*wanted], sizes))
    ((labels, product),) = factors
    whole = tuple(sizes[label] for label in labels)
    turned = steps.permuted(product, whole, [labels.index(label) for label in made])
    if turned != product:  # an answer is contiguous, and a copy alone would stay a view
        turned = steps.add("mul.Tensor", (turned, 1.0), operator.shape)
    return steps.named(turned)


def _is_plain(terms: Sequence[str], made: str) -> bool:
    """Say whether an einsum is a product of matrices as they lie, the right one by itself."""
    left, right = terms
    summed = [label for label in left if label in right and label not in made]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    plain = "".join((*rows, *summed)), "".join((*summed, *columns)), "".join((*rows, *columns))
    return len(right) == 2 and bool(summed) and (left, right, made) == plain


def _cost(
    two: Sequence[str], factors: Sequence[tuple[str, Any]], made: str, sizes: Mapping[str, int]
) -> tuple[int, int]:
    """Return how many elements the product of two factors has, and what it takes."""
    rest = [term for term, _ in factors]
    for term in two:
        rest.remove(term)
    labels = {*two[0], *two[1]}
    kept = labels & {*made}.union(*rest)
    return math.prod(sizes[label] for label in kept), math.prod(sizes[label] for label in labels)


def _contracted(
    steps: _Steps,
    one: tuple[str, Any],
    other: tuple[str, Any],
    wanted: Sequence[str],
    sizes: Mapping[str, int],
) -> tuple[str, Any]:
    """Return the product of two factors, summed over what is not wanted, and its labels."""
    (left, x), (right, y) = (
        _summed(steps, factor, {*wanted, *beside}, sizes)
        for factor, beside in ((one, other[0]), (other, one[0]))
    )
    batch = [label for label in wanted if label in left and label in right]
    summed = [label for label in left if label in right and label not in wanted]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    labels = "".join((*batch, *rows, *columns))
    whole = tuple(sizes[label] for label in labels)

    def shaped(term: str, value: Any, order: Sequence[str], flat: Shape) -> Ref:
        shape = tuple(sizes[label] for label in term)
        turned = steps.permuted(value, shape, [term.index(label) for label in order])
        return steps.viewed(turned, tuple(sizes[label] for label in order), flat)

    if not summed or not (rows or columns):  # no matrices, or such of one number
        every = (*labels, *summed)
        sides = [
            shaped(
                term,
                value,
                [label for label in every if label in term],
                tuple(sizes[label] if label in term else 1 for label in every),
            )
            for term, value in ((left, x), (right, y))
        ]
        product = steps.add("mul.Tensor", tuple(sides), tuple(sizes[label] for label in every))
        return _summed(steps, ("".join(every), product), labels, sizes)
    m, k, n = (math.prod(sizes[label] for label in part) for part in (rows, summed, columns))
    outer = (math.prod(sizes[label] for label in batch),) if batch else ()
    matrices = (
        shaped(left, x, [*batch, *rows, *summed], (*outer, m, k)),
        shaped(right, y, [*batch, *summed, *columns], (*outer, k, n)),
    )
    flat = (*outer, m, n)
    return labels, steps.viewed(steps.add("matmul.default", matrices, flat), flat, whole)


def _summed(
    steps: _Steps, factor: tuple[str, Any], kept: Container[str], sizes: Mapping[str, int]
) -> tuple[str, Any]:
    """Return a factor without the labels that nobody else has."""
    term, value = factor
    left = "".join(label for label in term if label in kept)
    if left == term:
        return factor
    axes = tuple(at for at, label in enumerate(term) if label not in kept)
    shape = tuple(sizes[label] for label in left)
    return left, steps.add("sum.dim_IntList", (value, axes), shape)


def _sizes(terms: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int] | None:
    """Return the size of each label of an einsum, None where one is broadcast."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            if sizes.setdefault(label, size) != size:
                return None
    return sizes


def scaled_sum(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """``addmm`` and ``baddbmm``: a product, scaled, and something that is added, scaled."""
    values = {**arguments(operator, "self", "left", "right"), **dict(operator.kwargs)}
    beta, alpha = values.get("beta", 1), values.get("alpha", 1)
    plain = operator.target.startswith("addmm") and len(graph.shape(values["self"])) == 1
    if plain and (beta, alpha) == (1, 1):
        return None  # a recipe takes it whole
    steps, shape = _Steps(operator), operator.shape
    result = steps.add("matmul.default", (values["left"], values["right"]), shape)
    if alpha != 1:
        result = steps.add("mul.Tensor", (result, alpha), shape)
    if beta != 0:  # nothing of the other is read then
        other = values["self"]
        if beta != 1:
            other = steps.add("mul.Tensor", (other, beta), graph.shape(other))
        result = steps.add("add.Tensor", (result, other), shape)
    return steps.named(result)


def bilinear(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """A bilinear layer as one product of a matrix and what it leaves to sum."""
    values = arguments(operator, "left", "right", "weight", "bias")
    (outs, one, other), lead = graph.shape(values["weight"]), graph.shape(values["left"])[:-1]
    steps, rows = _Steps(operator), math.prod(lead)
    turned = steps.permuted(values["weight"], (outs, one, other), (1, 0, 2))
    matrix = steps.viewed(turned, (one, outs, other), (one, outs * other))
    left = steps.viewed(values["left"], (*lead, one), (rows, one))
    product = steps.add("matmul.default", (left, matrix), (rows, outs * other))
    product = steps.add("reshape.default", (product, (rows, outs, other)), (rows, outs, other))
    right = steps.add("reshape.default", (values["right"], (rows, 1, other)), (rows, 1, other))
    terms = steps.add("mul.Tensor", (product, right), (rows, outs, other))
    result = steps.add("sum.dim_IntList", (terms, (2,)), (rows, outs))
    if values.get("bias") is not None:
        result = steps.add("add.Tensor", (result, values["bias"]), (rows, outs))
    return steps.named(steps.viewed(result, (rows, outs), operator.shape))


def gated(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """``glu``: one half times the sigmoid of the other."""
    values = arguments(operator, "self", "dim")
    shape, axis, steps = graph.shape(values["self"]), values.get("dim", -1), _Steps(operator)
    half = shape[axis] // 2
    parts = [
        steps.add("slice.Tensor", (values["self"], axis, start, start + half), operator.shape)
        for start in (0, half)
    ]
    gate = steps.add("sigmoid.default", (parts[1],), operator.shape)
    return steps.named(steps.add("mul.Tensor", (parts[0], gate), operator.shape))


class _Gates:
    """What the input and the state give to each gate of a cell; a state of zeros gives its bias alone."""

    def __init__(self, graph: Shapes, operator: Operator, state: Ref) -> None:
        names = ("input", "state", "w_input", "w_state", "b_input", "b_state")
        values = arguments(operator, *names)
        self.steps = _Steps(operator)
        rows, self.hidden = graph.shape(state)
        self.shape = (rows, self.hidden)
        self._given: list[tuple[Ref, Shape]] = []
        for side, value in (("input", values["input"]), ("state", state)):
            weight, bias = values[f"w_{side}"], values.get(f"b_{side}")
            wide = graph.shape(weight)[:1]
            if side == "state" and graph.made_by(value, "zeros", "zeros_like") is not None:
                self._given += [(bias, wide)] if bias is not None else []
                continue
            given = (value, weight) if bias is None else (value, weight, bias)
            self._given.append(
                (self.steps.add("linear.default", given, (rows, *wide)), (rows, *wide))
            )

    def add(self, target: str, *args: Any) -> Ref:
        """Append an operator whose result has the shape of the state."""
        return self.steps.add(target, args, self.shape)

    def parts(self, number: int) -> list[Ref]:
        """Return what the input and the state give to a gate."""
        ends = (self.hidden * number, self.hidden * (number + 1))
        return [
            self.steps.add("slice.Tensor", (of, len(shape) - 1, *ends), (*shape[:-1], self.hidden))
            for of, shape in self._given
        ]

    def sum(self, number: int) -> Ref:
        """Return what both give together."""
        first, *others = self.parts(number)
        return self.add("add.Tensor", first, others[0]) if others else first


def cell(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """One step of an RNN or GRU as two products and what is elementwise."""
    state = operator.args[1]
    gates = _Gates(graph, operator, state)
    if operator.target.startswith("rnn"):
        function = "relu.default" if "relu" in operator.target else "tanh.default"
        return gates.steps.named(gates.add(function, gates.sum(0)))
    reset, update = (gates.add("sigmoid.default", gates.sum(number)) for number in (0, 1))
    new, *old = gates.parts(2)
    if old:
        new = gates.add("add.Tensor", new, gates.add("mul.Tensor", old[0], reset))
    new = gates.add("tanh.default", new)
    kept = gates.add("mul.Tensor", gates.add("sub.Tensor", state, new), update)
    return gates.steps.named(gates.add("add.Tensor", kept, new))


def long_cell(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """One step of an LSTM; its cells have a name of their own, see `cells_of`."""
    state, cells = operator.args[1]
    gates = _Gates(graph, operator, state)
    take, keep, give = (gates.add("sigmoid.default", gates.sum(number)) for number in (0, 1, 3))
    new = gates.add("mul.Tensor", take, gates.add("tanh.default", gates.sum(2)))
    made = new_operator(
        cells_of(operator),
        "add.Tensor",
        (gates.add("mul.Tensor", keep, cells), new),
        gates.shape,
    )
    gates.steps.made.append(made)
    shown = gates.add("tanh.default", Ref(made.name))
    return gates.steps.named(gates.add("mul.Tensor", give, shown))


def product(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """A product of which a factor is a diagonal matrix, or a softmax that is turned for it."""
    if len(operator.args) != 2:  # one that says of which type its answer is
        return None
    return _by_diagonal(graph, operator) or _by_turned_shares(graph, operator)


def _by_diagonal(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """A product with a diagonal matrix scales rows or columns."""
    for side, other in ((0, 1), (1, 0)):
        diagonal = graph.made_by(operator.args[side], "diag", "diag_embed")
        if diagonal is None or len(operator.shape) != 2:
            continue
        (vector, *rest), factor = diagonal.args, operator.args[other]
        if len(graph.shape(vector)) != 1 or any(rest) or diagonal.kwargs:
            continue
        size, name = graph.shape(vector)[0], f"{operator.name}_scale"
        shape = (size, 1) if side == 0 else (1, size)
        return (
            new_operator(name, "reshape.default", (vector, shape), shape),
            new_operator(operator.name, "mul.Tensor", (factor, Ref(name)), operator.shape),
        )
    return None


def _by_turned_shares(graph: Shapes, operator: Operator) -> Sequence[Operator] | None:
    """Values that lie by columns times shares that are turned for it: attention, and its answer turned instead."""
    values, given = operator.args
    turned = graph.made_by(given, "transpose", "permute", "mT")
    shares = turned and graph.made_by(turned.args[0], "softmax", "_softmax")
    rank, last = len(operator.shape), len(operator.shape) - 1
    if turned is None or shares is None or shares.args[1] not in (-1, last):
        return None
    (*lead, c, n), m = graph.shape(values), operator.shape[-1]
    if (*lead, m, n) != graph.shape(turned.args[0]) or (*lead, c, m) != operator.shape:
        return None
    order = [*range(rank - 2), last, rank - 2]
    _, *axes = turned.args
    if turned.target.startswith("permute."):
        swaps = [axis % rank for axis in axes[0]] == order
    else:
        swaps = not axes or {axis % rank for axis in axes} == {*order[-2:]}
    if not swaps:
        return None
    steps = _Steps(operator)
    lines = steps.permuted(values, (*lead, c, n), order)
    answer = steps.add("matmul.default", (turned.args[0], lines), (*lead, m, c))
    back = steps.permuted(answer, (*lead, m, c), order)
    # Whoever reads the product finds it row by row: what follows it makes it so, or else a kernel that copies.
    return (*steps.made, new_operator(operator.name, "mul.Tensor", (back, 1.0), operator.shape))


def cells_of(operator: Operator) -> str:
    """Return the name of the cells behind a step of an LSTM."""
    return f"{operator.name}_cells"


REWRITES: Mapping[str, Callable[[Shapes, Operator], Sequence[Operator] | None]] = {
    **dict.fromkeys(("matmul", "mm", "bmm"), product),
    "einsum": einsum_product,
    "addmm": scaled_sum,
    "baddbmm": scaled_sum,
    "bilinear": bilinear,
    "glu": gated,
    "gru_cell": cell,
    "lstm_cell": long_cell,
    "rnn_tanh_cell": cell,
    "rnn_relu_cell": cell,
}
