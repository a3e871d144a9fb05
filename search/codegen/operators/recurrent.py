"""Recurrent layers as products of whole sequences and recurrences: the input's products need no step before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from search.codegen.ir import Shape, refs
from search.codegen.operators.new import new_operator
from search.codegen.operators.pointwise import arguments
from search.costs.graph import Operator, OperatorGraph, Ref

RECURRENCE = "recipe.recurrence"
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def recurrent_layers(graph: OperatorGraph) -> bool:
    """Say whether `graph` has layers of an RNN, LSTM or GRU, which a compiler takes apart into all their steps."""
    return any(operator.target.split(".")[0] in GATES for operator in graph.operators)


_NAMES = (
    "input",
    "start",
    "parameters",
    "biases",
    "layers",
    "dropout",
    "train",
    "bidirectional",
    "batch_first",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """A recurrent operator whose every layer and direction becomes a product and a recurrence.

    Attributes:
        operator: the framework's, with all layers.
        kind: ``lstm``, ``gru``, ``rnn_tanh`` or ``rnn_relu``.
        start: the states before the first step: of each layer and direction, none where they are zero.
        hidden: elements of a state.
        cells: an LSTM's last cells are wanted, so that its recurrences return their cells behind their outputs.
    """

    operator: Operator
    kind: str
    values: dict[str, Any]
    start: tuple[Ref, ...]
    hidden: int
    cells: bool

    @property
    def time(self) -> int:
        """The dimension of the steps."""
        return 1 if self.values["batch_first"] else 0

    @property
    def directions(self) -> int:
        """One, or two where a layer is also run from the end."""
        return 2 if self.values["bidirectional"] else 1

    def written_out(self) -> tuple[Operator, ...]:
        """Return the operators that compute the outputs of all steps, the last named as this one."""
        found: list[Operator] = []
        given, steps = self.values["input"], self.operator.shape[:2]
        for layer in range(self.values["layers"]):
            ends: list[Ref] = []
            for turn in range(self.directions):
                found += self._direction(layer, turn, given, steps)
                ends.append(Ref(found[-1].name))
            if len(ends) == 1:
                given = ends[0]
                continue
            shape = (*steps, self.hidden * len(ends))
            name = f"{self.operator.name}_layer{layer}"
            found.append(new_operator(name, "cat.default", (tuple(ends), 2), shape))
            given = Ref(name)
        return (
            *found,
            new_operator(self.operator.name, "alias.default", (given,), self.operator.shape),
        )

    def last_states(self, name: str, *, cells: bool) -> tuple[Operator, ...]:
        """Return the operators that put the last states or cells of all layers together as `name`."""
        found, ends = [], []
        steps = self.operator.shape[:2]
        for layer in range(self.values["layers"]):
            for turn in range(self.directions):
                end, every = f"{name}_{layer}_{turn}", self._name(layer, turn)
                if cells:
                    both, every = Ref(f"{every}_both"), f"{end}_every"
                    found.append(
                        new_operator(every, "select.int", (both, 0, 1), (*steps, self.hidden))
                    )
                args = (Ref(every), self.time, 0 if turn else -1)
                found.append(
                    new_operator(end, "select.int", args, (steps[1 - self.time], self.hidden))
                )
                ends.append(Ref(end))
        shape = (len(ends), steps[1 - self.time], self.hidden)
        return (*found, new_operator(name, "stack.default", (tuple(ends), 0), shape))

    def _name(self, layer: int, turn: int) -> str:
        return f"{self.operator.name}_steps{layer}_{turn}"

    def _direction(self, layer: int, turn: int, given: Ref, steps: Shape) -> list[Operator]:
        each = 4 if self.values["biases"] else 2
        at = layer * self.directions + turn
        own = self.values["parameters"][at * each : at * each + each]
        name = self._name(layer, turn)
        found = [
            new_operator(
                f"{name}_input",
                "linear.default",
                (given, own[0], *own[2:3]),
                (*steps, GATES[self.kind] * self.hidden),
            )
        ]
        starts: list[Ref] = []
        for number, states in enumerate(self.start):
            start = f"{name}_start{number}"
            shape = (self.operator.shape[1 - self.time], self.hidden)
            found.append(new_operator(start, "select.int", (states, 0, at), shape))
            starts.append(Ref(start))
        found.append(
            new_operator(
                f"{name}_both" if self.cells else name,
                f"{RECURRENCE}.{self.kind}",
                (Ref(f"{name}_input"), own[1], *own[3:4], *starts),
                (*([2] if self.cells else []), *steps, self.hidden),
                biases=len(own[3:4]),
                starts=len(starts),
                time=self.time,
                backwards=turn,
                whole=self.operator.name,
            )
        )
        if self.cells:
            args = (Ref(f"{name}_both"), 0, 0)
            found.append(new_operator(name, "select.int", args, (*steps, self.hidden)))
        return found


def recurrent(graph: OperatorGraph, operator: Operator) -> Recurrent | None:
    """Return what `operator` is made of, None where it is not one that can be written out."""
    kind, _, overload = operator.target.partition(".")
    if kind not in GATES or overload != "input" or operator.dtype != "float32":
        return None
    values = arguments(operator, *_NAMES)
    trained = values["train"] and values["dropout"] and values["layers"] > 1
    # Projections give a layer a fifth matrix.
    count = (
        (4 if values["biases"] else 2) * values["layers"] * (2 if values["bidirectional"] else 1)
    )
    used = {ref.name for other in graph.operators for ref in refs((other.args, other.kwargs))}
    cells = any(
        other.target == "getitem"
        and other.args == (Ref(operator.name), 2)
        and (other.name in used or other.name in graph.outputs)
        for other in graph.operators
    )
    if trained or len(values["parameters"]) != count or len(operator.shape) != 3:
        return None
    zero = {one.name for one in graph.operators if one.target == "zeros.default"}
    start = refs(values["start"])
    return Recurrent(
        operator=operator,
        kind=kind,
        values=values,
        start=() if all(ref.name in zero for ref in start) else start,
        hidden=operator.shape[2] // (2 if values["bidirectional"] else 1),
        cells=cells,
    )
