"""Which inputs a reference refuses, asked on the host: a kernel that asserts on a GPU ends all work there.

Of which it makes what its algorithm happens to make, nobody is asked either.

On a processor an operator that is given what it is not defined for raises, and the distribution is left out. On a GPU it
asserts, after which no kernel of the process runs any more. On either, one draw of a distribution may be refused and
another taken.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from kb.errors import TaskError
from search import seeds
from search.costs.graph import Operator, OperatorGraph, Ref
from search.costs.trace import operator_graph
from search.judging import inputs as distributions
from search.reference import Problem

# A library on a GPU answers with some numbers what one on a processor refuses, as singular values of infinities.
_BY_VALUE = {
    "bernoulli", "binary_cross_entropy", "cholesky", "inverse", "linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh",
    "linalg_eigvalsh", "linalg_inv", "linalg_pinv", "linalg_solve", "linalg_svd", "linalg_svdvals", "multinomial", "nanquantile",
    "pinverse", "quantile", "svd",
}  # fmt: skip
_BY_INDEX = {
    "cross_entropy_loss", "embedding", "embedding_bag", "gather", "index", "index_add", "index_copy", "index_put",
    "index_select", "nll_loss", "nll_loss2d", "nll_loss_nd", "one_hot", "put", "scatter", "scatter_add", "scatter_reduce",
    "take", "take_along_dim",
}  # fmt: skip
# An infinity in a frame is an infinity or no number in its transform, by the order of its sums: a library takes another one where
# the frames lie apart.
_TRANSFORMS = re.compile(r"_fft_\w+|i?stft|fft_i?[rh]?fft[2n]?")
_NAMED_TRANSFORM = re.compile(r"\bfft\.i?[rh]?fft[2n]?\b|\bi?stft\b")
_BY_ALGORITHM = "what a Fourier transform makes of infinities is its algorithm's affair"
# Draws of a distribution, and seconds that they may take; one that refuses every second draw is left out but for one
# time in 4,096. More where they take no time, since one draw in ten may be refused, and where inputs are drawn for every call that
# is timed.
_DRAWS, _MORE_DRAWS, _SECONDS, _NO_TIME = 12, 50, 1.0, 0.05
# Their results are places that there are.
_IN_RANGE = {"arange", "argmax", "argmin", "argsort", "max", "min", "sort", "topk"}


def graph_of(problem: Problem) -> OperatorGraph | None:
    """Return what the reference computes, None where it cannot be traced."""
    try:
        return operator_graph(problem)
    except TaskError:
        return None


def may_assert(graph: OperatorGraph) -> bool:
    """Say whether an operator may be given values or indices that it asserts on.

    Indices that `get_inputs()` draws are valid; those that are computed from drawn values may not be.
    """
    made = {one.name: one for one in graph.operators}
    return any(
        _packet(one) in _BY_VALUE
        or (_packet(one) in _BY_INDEX and any(_computed(made, name) for name in _read(one.args)))
        for one in graph.operators
    )


class HostScreen:
    """Runs a reference that may refuse values, or assert on them on a GPU, on the host first.

    Args:
        graph: of the reference; None where it cannot be traced, and on a GPU every reference is asked.
    """

    def __init__(self, problem: Problem, graph: OperatorGraph | None) -> None:
        on_gpu = any(isinstance(one, torch.Tensor) and one.is_cuda for one in problem.inputs)
        asked = on_gpu if graph is None else graph.checked or may_assert(graph)
        self._problem = problem
        self._model = host_model(problem) if asked else None
        self.asked = asked
        if graph is None:
            self._transforms = _NAMED_TRANSFORM.search(problem.task.source) is not None
        else:
            self._transforms = any(_TRANSFORMS.fullmatch(_packet(one)) for one in graph.operators)

    def refusal(self, distribution: str, seed: int) -> str:
        """Return why no candidate is asked inputs of a distribution, a line; empty where they are.

        Two quantiles are between zero and one by luck: timed calls draw again, so that several draws are looked at.

        Args:
            seed: of the draw that is meant; others are made from those after it.
        """
        if distribution == distributions.SPECIAL and self._transforms:
            return _BY_ALGORITHM
        said = self._first(partial(distributions.draw, self._problem, distribution), seed)
        return f"the reference refuses it: {said[:120]}" if said else ""

    @property
    def least_factor(self) -> float:
        """Return the least factor by which elements may be scaled apart, so that the reference still takes them.

        It is asked of elements twice as far apart: what one draw of a hundred is refused for shows in a few of them.
        """
        apart, given = distributions.scaled_apart, self._problem.inputs
        for least in distributions.FACTORS:
            if not self._first(
                partial(apart, given, least=2 * least - 1), seeds.secret(), _MORE_DRAWS
            ):
                return least
        return distributions.FACTORS[-1]

    def _first(self, make: Callable[[int], tuple[Any, ...]], seed: int, draws: int = _DRAWS) -> str:
        """Return what the reference says of the first inputs, of several that `make` makes, that it refuses."""
        if self._model is None:
            return ""
        begin = time.monotonic()
        for number in range(_MORE_DRAWS):
            taken = time.monotonic() - begin
            if number and taken > (_SECONDS if number < draws else _NO_TIME):
                break
            if said := refused(self._model, make(seed + number)):
                return said
        return ""


def host_model(problem: Problem) -> torch.nn.Module | None:
    """Return the reference on the host, None where it does not run there even on its own inputs."""
    model = copy.deepcopy(problem.model).cpu()
    return None if refused(model, problem.inputs) else model


def refused(model: torch.nn.Module, inputs: tuple[Any, ...]) -> str:
    """Return the first line of what a reference on the host raises; empty where it answers."""
    given = (one.cpu() if isinstance(one, torch.Tensor) else one for one in inputs)
    try:
        with torch.no_grad():
            model(*given)
    except Exception as error:  # noqa: BLE001 - the user's program may raise anything
        return first_line(error)
    return ""


def first_line(error: Exception) -> str:
    """Return the first line of what an exception says, its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _packet(one: Operator) -> str:
    return one.target.partition(".")[0].removesuffix("_")


def _computed(made: Mapping[str, Operator], name: str) -> bool:
    one = made.get(name)
    if one is None or "int" not in one.dtype:
        return False
    if _packet(one) == "getitem":  # of several results
        return any(_packet(made[of]) not in _IN_RANGE for of in _read(one.args) if of in made)
    return _packet(one) not in _IN_RANGE


def _read(values: Any) -> Iterator[str]:
    for value in values:
        if isinstance(value, Ref):
            yield value.name
        elif isinstance(value, tuple):
            yield from _read(value)
