"""How values flow between the steps of a reference: products, reductions, normalisations and the like.

Views and elementwise operators are on the way, not steps. A softmax or a normalisation that is
written out in single operators counts as one step, as knowledge speaks of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from math import prod

from search.costs.graph import Operator, OperatorGraph, Value
from search.costs.trace import operands, operator_name
from search.patterns.families import topic

LONGEST = 4  # steps of a path
SMALL = 60  # times smaller than the largest operator: no part of what a task is
PATHS = 400  # that are followed to one operator: an unrolled loop has no end of them
_MASKS = {"masked_fill", "where", "tril", "triu", "index_put", "index"}
_SCALINGS = {"mul", "div", "neg"}
_ROOTS = {"rsqrt", "sqrt", "pow", "std", "linalg_vector_norm", "norm"}
_MOMENTS = {"mean", "var", "std", "var_mean", "sum", "norm", "linalg_vector_norm"}


class Flow:
    """The operators of a graph by what they take and what takes them.

    Attributes:
        summed_by: of a softmax or normalisation that is written out, the reduction that it scales by.
    """

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.operators = {one.name: one for one in graph.operators}
        self.values = {one.name: one for one in graph.values}
        self.inputs = {one.name: operands(one) for one in graph.operators}
        self.takers: dict[str, list[str]] = defaultdict(list)
        for name, taken in self.inputs.items():
            for one in dict.fromkeys(taken):
                self.takers[one].append(name)
        self.summed_by: dict[str, str] = {}
        self._steps = {one.name: _step(one) for one in graph.operators}
        self._compose()

    def __iter__(self) -> Iterator[Operator]:
        """Yield the operators in their order."""
        return iter(self.graph.operators)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value or of an operator's result."""
        entry: Value | Operator = self.values.get(name) or self.operators[name]
        return entry.shape

    def kind(self, name: str) -> str:
        """Return the plain name of the operator called `name`, "" for a value that enters."""
        found = self.operators.get(name)
        return operator_name(found) if found is not None else ""

    def step(self, name: str) -> str:
        """Return the step that an operator is, "" where it is only on the way."""
        return self._steps.get(name, "")

    def steps(self, *kinds: str) -> Iterator[Operator]:
        """Yield the operators that are one of these steps."""
        return (one for one in self if self._steps[one.name] in kinds)

    def named(self, *names: str) -> Iterator[Operator]:
        """Yield the operators with one of these plain names."""
        return (one for one in self if operator_name(one) in names)

    def before(self, name: str) -> frozenset[str]:
        """Return what an operator takes, seen through all that is no step: steps, and values."""
        return self._before[name]

    def on_the_way(self, name: str) -> frozenset[str]:
        """Return the plain names of what lies between an operator and the steps before it."""
        found: set[str] = set()
        waiting, seen = list(self.inputs[name]), set()
        while waiting:
            one = waiting.pop()
            if one in seen or one not in self.operators or self.step(one):
                continue
            seen.add(one)
            found.add(self.kind(one))
            waiting += self.inputs[one]
        return frozenset(found)

    def after(self, name: str) -> frozenset[str]:
        """Return the operators that take a result, seen through views alone."""
        found: set[str] = set()
        waiting = list(self.takers.get(name, ()))
        while waiting:
            one = waiting.pop()
            if topic(self.operators[one]) is None:
                waiting += self.takers.get(one, ())
            else:
                found.add(one)
        return frozenset(found)

    def origin(self, name: str) -> str:
        """Return where a value comes from, seen through views alone."""
        while name in self.operators and topic(self.operators[name]) is None and self.inputs[name]:
            name = self.inputs[name][0]
        return name

    def source(self, name: str) -> str:
        """Return where a value comes from, seen through views and scalings by a number."""
        while True:
            name = self.origin(name)
            inner = self.inputs.get(name, [])
            if self.kind(name) not in _SCALINGS or len(inner) != 1:
                return name
            name = inner[0]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Elements that each operator takes and makes."""
        return {
            one.name: prod(one.shape)
            + sum(prod(self.shape(name)) for name in dict.fromkeys(self.inputs[one.name]))
            for one in self
        }

    def is_small(self, name: str) -> bool:
        """Say whether an operator moves so little beside others that its form decides nothing."""
        return SMALL * self.sizes[name] < max(self.sizes.values())

    @cached_property
    def paths(self) -> frozenset[str]:
        """Every sequence of up to four steps that follow one another, as ``matmul>softmax>matmul``."""
        ending: dict[str, set[tuple[str, ...]]] = {}
        for one in self:
            earlier: set[tuple[str, ...]] = set()
            for name in self.inputs[one.name]:
                earlier |= ending.get(name, set())
                if len(earlier) > PATHS:
                    break
            step = self._steps[one.name]
            if step:
                earlier = {(*path, step)[-LONGEST:] for path in earlier} | {(step,)}
            ending[one.name] = earlier
        every = {path for paths in ending.values() for path in paths}
        return frozenset(
            ">".join(path[start:end])
            for path in every
            for start in range(len(path))
            for end in range(start + 1, len(path) + 1)
        )

    @cached_property
    def _before(self) -> dict[str, frozenset[str]]:
        reached: dict[str, frozenset[str]] = {}
        found: dict[str, frozenset[str]] = {}
        for one in self:
            mine: set[str] = set()
            for name in self.inputs[one.name]:
                mine |= reached.get(name, frozenset((name,)))
            found[one.name] = frozenset(sorted(mine)[:64])
            stops = bool(self._steps[one.name])
            reached[one.name] = frozenset((one.name,)) if stops else found[one.name]
        return found

    def _compose(self) -> None:
        """Take softmaxes and normalisations that are written out for one step each."""
        for one in self.graph.operators:
            name = operator_name(one)
            if name == "exp":
                self._softmax(one)
            elif name in _ROOTS:
                self._normalization(one)

    def _softmax(self, exp: Operator) -> None:
        """``exp(x - max) / sum``: the division is the step."""
        sums = [name for name in self.after(exp.name) if self.kind(name) == "sum"]
        for total in sums:
            for name in self.after(total):
                if self.kind(name) in {"div", "mul"} and exp.name in map(
                    self.origin, self.inputs[name]
                ):
                    self._steps[name] = "softmax"
                    self.summed_by[name] = total
                    self._steps[total] = ""
                    for behind in self._backwards(exp.name, 6):
                        if self.kind(behind) in {"amax", "max"}:
                            self._steps[behind] = ""

    def _normalization(self, root: Operator) -> None:
        """A moment, its root, and a scaling by it: the scaling is the step."""
        moments = [
            name
            for name in (root.name, *self._backwards(root.name, 6))
            if self.kind(name) in _MOMENTS and len(self.shape(name)) > 0
        ]
        if not moments or (operator_name(root) == "pow" and root.args[1:2] != (-0.5,)):
            return
        waiting, depth = [root.name], 0
        while waiting and depth < 5:
            waiting = [taker for name in waiting for taker in self.takers.get(name, ())]
            depth += 1
            scalings = [name for name in waiting if self.kind(name) in {"mul", "div"}]
            large = [name for name in scalings if prod(self.shape(name)) > prod(root.shape)]
            if large:
                self._steps[large[0]] = "normalization"
                self.summed_by[large[0]] = moments[0]
                for name in moments:
                    self._steps[name] = ""
                return

    def _backwards(self, name: str, depth: int) -> list[str]:
        """Return what lies behind an operator, at most `depth` operators away."""
        found: dict[str, None] = {}
        waiting = [name]
        for _ in range(depth):
            waiting = [
                one
                for taken in waiting
                for one in self.inputs.get(taken, ())
                if one in self.operators and one not in found
            ]
            found.update(dict.fromkeys(waiting))
        return list(found)


def _step(operator: Operator) -> str:
    found = topic(operator)
    if found in (None, "elementwise") or operator_name(operator) in _MASKS:
        return ""
    return found or ""
