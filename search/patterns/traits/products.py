"""Forms of matrix products: shapes, structure of operands, what stands before and behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from search.costs.graph import Operator
from search.patterns.flow import Flow

LARGE = 0.2  # of the largest product's cost, from which on a product's shape counts
_POINTWISE = {"relu", "gelu", "silu", "sigmoid", "tanh", "mul", "add", "div", "clamp", "sub", "softplus",
              "hardtanh", "leaky_relu", "elu", "mish", "hardswish", "exp", "pow"}  # fmt: skip
_LINEAR = {"add", "sub", "neg", "div", "reshape", "contiguous", "clone", "mul"}
_GATES = {"silu", "sigmoid", "gelu", "relu", "tanh"}
_TRIANGLES = {"tril", "triu"}
_INTEGERS = {"int8", "uint8", "int16", "int32", "int64"}
_UNPACKING = {"bitwise_and", "__and__", "__rshift__", "bitwise_right_shift", "__lshift__", "remainder", "floor_divide"}  # fmt: skip


_PLAIN = {
    "mm",
    "bmm",
    "matmul",
    "linear",
    "addmm",
    "baddbmm",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "_int_mm",
}
_ADDED = {"addmm", "baddbmm", "addmv"}  # what is added comes first
_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")  # which multiply inside
_SMALL = 64  # on a side, at most, of what is small
_TILES = 132 * 64 * 32  # results, below which a large GPU has fewer tiles than multiprocessors
FEW = 8  # rows and terms, at most, of a product that is none: it is done element by element
_BYTE = 8  # multiplications that a number from memory costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """A product's rows, columns and summed extent, and how many of it there are."""

    batch: int
    rows: int
    columns: int
    summed: int

    @property
    def cost(self) -> int:
        """Products of numbers, or what it costs to read the operands where that is more."""
        moved = self.rows * self.summed + self.summed * self.columns + self.rows * self.columns
        return self.batch * max(self.rows * self.columns * self.summed, _BYTE * moved)


def product_traits(flow: Flow) -> Iterator[tuple[str, str]]:
    """Yield traits of products with what shows them."""
    products = list(flow.steps("matmul"))
    extents = {one.name: sizes_of(flow, one) for one in products}
    most = max((sizes.cost for sizes in extents.values() if sizes is not None), default=0)
    shapes: dict[str, int] = {}
    for one in products:
        sizes = extents[one.name]
        if sizes is None:
            continue
        for name, _ in _shape(sizes):
            shapes[name] = shapes.get(name, 0) + sizes.cost
    for one in products:
        sizes = extents[one.name]
        # What is small beside the largest product decides nothing.
        if sizes is not None:
            yield from ((n, told) for n, told in _shape(sizes) if shapes[n] >= LARGE * most)
        yield from _operands(flow, one)
        if sizes is None or not is_few(sizes):
            yield from _epilogue(flow, one)
        yield from _chain(flow, one)
    shared = Counter(
        flow.origin(flow.inputs[one.name][0]) for one in products if flow.inputs[one.name]
    )
    most = max(shared.values(), default=0)
    if most >= 2:
        yield (
            ("products-of-one-input" if most > 2 else "two-products-of-one-input"),
            f"{most} of them",
        )
    if len(products) >= 2:
        yield "several-products", f"{len(products)} of them"
    yield from _gated(flow)
    yield from _dense_layers(flow, products)
    yield from _quantised(flow, products)
    yield from _formats(flow)


def sizes_of(flow: Flow, one: Operator) -> Sizes | None:
    """Return the extents of a product, None where they are not plain (an einsum of three operands)."""
    names = flow.inputs[one.name]
    kind = flow.kind(one.name)
    if kind == "einsum" and len(names) == 2:
        return _contracted(str(one.args[0]), flow.shape(names[0]), flow.shape(names[1]))
    if kind in _ADDED:
        names = names[1:]
    if len(names) < 2 or kind not in _PLAIN:
        return None
    left, right = flow.shape(names[0]), flow.shape(names[1])
    if not left or not right:
        return None
    summed = left[-1]
    if kind == "linear":
        return Sizes(
            batch=1, rows=prod(left[:-1]), columns=right[0] if len(right) > 1 else 1, summed=summed
        )
    rows = left[-2] if len(left) > 1 else 1
    columns = right[-1] if len(right) > 1 else 1
    batch = max(1, prod(one.shape) // max(1, rows * columns))
    if len(right) <= 2:
        rows, batch = rows * batch, 1
    return Sizes(batch=batch, rows=rows, columns=columns, summed=summed)


def _contracted(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> Sizes | None:
    """Return the extents of an einsum of two operands: indices of both and the result are its batch."""
    terms, _, out = equation.replace(" ", "").partition("->")
    one, _, two = terms.partition(",")
    if "." in equation or len(one) != len(left) or len(two) != len(right):
        return None
    extents = {**dict(zip(one, left, strict=True)), **dict(zip(two, right, strict=True))}

    def over(letters: set[str]) -> int:
        return prod(extents[letter] for letter in letters)

    both = set(one) & set(two)
    return Sizes(
        batch=over(both & set(out)),
        rows=over((set(one) - both) & set(out)),
        columns=over((set(two) - both) & set(out)),
        summed=over(both - set(out)),
    )


def is_few(sizes: Sizes) -> bool:
    """Say whether a product has so few rows and terms that it is done element by element."""
    _, middle, largest = sorted((sizes.rows, sizes.columns, sizes.summed))
    return 1 < middle <= FEW and largest > _SMALL


def _shape(sizes: Sizes) -> Iterator[tuple[str, str]]:
    told = f"{sizes.rows}x{sizes.summed} by {sizes.summed}x{sizes.columns}"
    least, most = sorted((sizes.rows, sizes.columns))
    if is_few(sizes):
        yield "product-of-few-terms", told
        return
    yield "product", told
    if least == 1:
        yield "matrix-vector-product", told
    elif sizes.rows <= 32 and max(most, sizes.summed) >= 256 and sizes.batch < 64:
        yield "skinny-product", told
    elif sizes.columns <= 32 and sizes.batch < 64:
        yield "narrow-product", told
    else:
        yield "plain-product", told
    if sizes.batch >= 32 and max(most, sizes.summed) <= _SMALL:
        yield "many-small-products", f"{sizes.batch} of {told}"
    elif sizes.batch > 1:
        yield "batched-product", f"{sizes.batch} of {told}"
    if least >= 128 and sizes.summed >= 64:
        yield "large-product", told
    if sizes.batch * sizes.rows * sizes.columns <= _TILES and sizes.summed >= 256:
        yield "few-results", told
    if sizes.summed >= 8 * most and sizes.summed >= 4096:
        yield "long-summed-dimension", told


def _operands(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    names = flow.inputs[one.name][:3]
    origins = [flow.origin(name) for name in names]
    kinds = [flow.kind(name) for name in origins]
    own = len(names) > 1 and len({flow.source(name) for name in names[:2]}) == 1
    if own and flow.kind(one.name) != "linear":
        yield "product-with-its-own-transpose", one.name
    if has_weights(flow, names):
        yield "product-with-weights", one.name
        if any(_stacked(flow, name) for name in names[:2]):
            yield "stacked-weights", one.name
    if any(kind in {"diag", "diag_embed"} for kind in kinds):
        yield "diagonal-operand", one.name
    if any(kind in _TRIANGLES for kind in kinds):
        yield "triangular-operand", one.name
    if any(kind == "one_hot" or "one_hot" in flow.on_the_way(one.name) for kind in kinds):
        yield "one-hot-operand", one.name
    if any(flow.kind(name) in {"transpose", "t", "permute", "numpy_T", "mT"} for name in names):
        yield "transposed-operand", one.name
    if any(flow.kind(name) in _TRIANGLES for name in flow.after(one.name)):
        yield "triangle-of-a-product", one.name
    if flow.kind(one.name) == "einsum":
        yield "einsum", str(one.args[0])


def _stacked(flow: Flow, name: str) -> bool:
    """Say whether an operand is a parameter of several matrices."""
    source = flow.values.get(flow.source(name))
    return source is not None and source.kind == "parameter" and len(source.shape) == 3


def has_weights(flow: Flow, names: list[str]) -> bool:
    """Say whether an operand of a product is a parameter or made of parameters alone."""
    for name in names[:2]:
        source = flow.values.get(flow.source(name))
        if source is not None and source.kind == "parameter" and len(source.shape) > 1:
            return True
    return False


def _epilogue(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    after = {flow.kind(name) for name in flow.after(one.name)}
    if after & _POINTWISE:
        yield "product-epilogue", ", ".join(sorted(after & _POINTWISE))
    steps = {
        flow.step(other.name)
        for other in flow.steps("reduction", "normalization", "softmax")
        if one.name in flow.before(other.name)
    }
    if steps:
        yield "product-then-rows", ", ".join(sorted(steps))
    sums = [
        other.name
        for other in flow.steps("reduction")
        if flow.kind(other.name) in {"sum", "mean"} and one.name in flow.before(other.name)
    ]
    if sums and not flow.on_the_way(sums[0]) - _LINEAR:
        yield "sum-of-a-product", sums[0]


def _chain(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    """A product of a product with nothing but views and scalings between."""
    for name in flow.inputs[one.name][:2]:
        origin = flow.origin(name)
        if flow.step(origin) == "matmul" and not _scores_chain(flow, origin):
            yield "chain-of-products", f"{one.name} of {origin}"


def _scores_chain(flow: Flow, name: str) -> bool:
    return any(flow.step(one) == "softmax" for one in flow.before(name))


def _gated(flow: Flow) -> Iterator[tuple[str, str]]:
    """``act(a) * b``, both made by a product."""
    for one in flow.named("mul"):
        taken = [flow.origin(name) for name in flow.inputs[one.name]]
        acts = [name for name in taken if flow.kind(name) in _GATES]
        others = [name for name in taken if name not in acts]
        if (
            len(acts) == 1
            and others
            and _from_product(flow, acts[0])
            and _from_product(flow, others[0])
        ):
            yield "gated-product", f"{flow.kind(acts[0])} of one half times the other"
            return


def _from_product(flow: Flow, name: str) -> bool:
    if flow.step(name) == "matmul":
        return True
    return name in flow.operators and any(flow.step(one) == "matmul" for one in flow.before(name))


def _dense_layers(flow: Flow, products: list[Operator]) -> Iterator[tuple[str, str]]:
    for one in products:
        behind = [name for name in flow.before(one.name) if flow.step(name) == "matmul"]
        if behind and flow.on_the_way(one.name) & (_GATES | {"leaky_relu", "elu"}):
            yield "dense-layers", f"{behind[0]}, activation, {one.name}"
            return


def _quantised(flow: Flow, products: list[Operator]) -> Iterator[tuple[str, str]]:
    for one in products:
        narrow = [
            name
            for name in flow.before(one.name)
            if name in flow.values
            and flow.values[name].dtype in _INTEGERS
            and prod(flow.shape(name)) >= 1024
        ]
        way = flow.on_the_way(one.name)
        if narrow and not way & {"embedding", "index", "one_hot", "gather"}:
            yield "integer-weights", f"{flow.values[narrow[0]].dtype}, widened before {one.name}"
            if way & _UNPACKING:
                yield "packed-weights", ", ".join(sorted(way & _UNPACKING))


def _formats(flow: Flow) -> Iterator[tuple[str, str]]:
    formats = {one.dtype for one in (*flow.values.values(), *flow)}
    if formats & {"float16", "bfloat16"}:
        yield "half-precision", ", ".join(sorted(formats & {"float16", "bfloat16"}))
    products = [*flow.steps("matmul", "convolution", "attention"), *flow.named(*_LAYERS)]
    if products and all(one.dtype in {"float16", "bfloat16"} for one in products):
        yield "half-precision-products", f"{len(products)} of {len(products)}"
    if any(name.startswith("complex") for name in formats):
        yield "complex-numbers", ", ".join(sorted(n for n in formats if n.startswith("complex")))
