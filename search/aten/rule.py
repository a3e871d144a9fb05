"""The rule that fixes the operators of the suite, from torch's own OpInfo.

An entry of `op_db` is a problem where all of this holds; what does not is listed with the first reason:

1. It has no variant name, and no dot in its name but that of ``nn.functional``: one entry an operator.
2. It takes float32 on a processor, and torch has a public function or method of its name.
3. On some sample input it returns dense float32 tensors that are not empty, and finite.
4. Equal inputs give equal answers, the inputs stay as they are, and the answer is none of them, nor a view.
5. The call can be written as a program that draws its inputs.
6. No shape and no branch depends on the values of its inputs: the judge needs a graph of what is computed.
7. It was examined within two minutes and 16 GiB, see `search.aten.selection`.

Of those the 160 with the most sample inputs are the suite, ties by name. The list is fixed for a version of
torch. Each problem is the largest such sample, made larger where the operator allows it, since samples of
some hundred elements say nothing of time.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from search.aten.programs import OperatorCall, Unwritable, enlarged, function_name, write_program
from search.aten.samples import OperatorSample, samples_of
from search.costs.trace import trace

_ELEMENTS = 1 << 18  # of a problem's tensors, where an operator allows more than its samples have
_TRIED = 8  # of the samples of one operator, the largest first
_MOST_OUTPUTS = 16
_DRAWS = 3  # of a program's inputs: one may be taken by luck
_MOST_SAMPLES = 200  # of one operator that are looked at
# How operators and torch.export refuse what they are given.
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, Unwritable)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProblem:
    """An operator of the suite.

    Attributes:
        samples: how many sample inputs OpInfo has of it.
        program: text of the reference, which is timed.
        asked: what it is answered on besides.
    """

    name: str
    samples: int
    program: str
    asked: tuple[OperatorSample, ...]


def examined(entry: Any) -> OperatorProblem:
    """Return an operator on the largest of its samples that can be traced.

    Raises:
        Unwritable: it is no problem, and why.
    """
    problems = _problems(entry, str(entry.name))
    traced = next((one for one in problems if has_graph(one.program)), None)
    if traced is None:
        raise Unwritable("a shape or a branch depends on its inputs' values")
    return traced


def entries() -> Iterator[Any]:
    """Yield the entries of OpInfo that pass the first condition."""
    # torch's own test helpers import this, and nothing that is used here needs it.
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # type: ignore[import-not-found] # noqa: F401
        except ModuleNotFoundError:
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = type("TestCase", (), {})  # type: ignore[attr-defined]
            sys.modules["expecttest"] = stand_in
    with _quiet():
        from torch.testing._internal.common_methods_invocations import op_db

    for entry in op_db:
        bare = entry.name.removeprefix("nn.functional.")
        if not entry.variant_test_name and "." not in bare:
            yield entry


def _problems(entry: Any, name: str) -> Iterator[OperatorProblem]:
    """Yield the operator on its samples, the largest first.

    Raises:
        Unwritable: it can be judged on none.
    """
    if torch.float32 not in entry.dtypes:
        raise Unwritable("it takes no float32 on a processor")
    if name.removeprefix("new_").startswith("empty"):
        raise Unwritable("its answer is memory that nobody has written")
    written = function_name(name)
    with _repeatable():
        try:
            samples = list(
                islice(
                    entry.sample_inputs("cpu", torch.float32, requires_grad=False), _MOST_SAMPLES
                )
            )
        # torch's own test code: what it raises has no class in common.
        except Exception as error:
            raise Unwritable(f"its samples cannot be made: {type(error).__name__}") from error
    calls = [
        OperatorCall(name=written, arguments=(one.input, *one.args), options=dict(one.kwargs))
        for one in samples
    ]
    reasons, none = [], True
    for call in sorted(calls, key=_elements, reverse=True)[:_TRIED]:
        for enlarges in (True, False):
            try:
                with _repeatable():
                    found = _written(call, calls, name, enlarges=enlarges)
            except Unwritable as error:
                reasons.append(str(error))
                continue
            if found is not None:
                none = False
                yield found
    if none:
        raise Unwritable(reasons[-1] if reasons else "it has no sample inputs")


def _written(
    call: OperatorCall, calls: list[OperatorCall], name: str, *, enlarges: bool
) -> OperatorProblem | None:
    """Return the problem of a call, None where it cannot be enlarged and should be.

    Raises:
        Unwritable: it cannot be judged.
    """
    tried = _larger(call) if enlarges else call
    if tried is None:
        return None
    _require_judged(tried)
    title = f"{name}: the operator of torch {torch.__version__.partition('+')[0]}."
    program = _program(tried, title)
    return OperatorProblem(
        name=name, samples=len(calls), program=program, asked=samples_of(calls, title)
    )


def _program(call: OperatorCall, title: str) -> str:
    """Return the program of a call; with the call's own values where others of their range are refused."""
    program = write_program(call, title)
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - it was written here
    model, draw = names["Model"](), names["get_inputs"]
    try:
        outputs = [one for _ in range(_DRAWS) for one in _outputs(model(*draw()))]
        fine = all(bool(torch.isfinite(value).all()) for value in outputs)
    except _REFUSALS:  # a factorization of a matrix that is not positive, for one
        fine = False
    return program if fine else write_program(call, title, exact=True)


def has_graph(program: str) -> bool:
    """Say whether a program can be traced: no shape and no branch depends on the values of its inputs."""
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - it was written here
    try:
        with _quiet():
            trace(names["Model"](), tuple(names["get_inputs"]()))
    except _REFUSALS:
        return False
    return True


def _larger(call: OperatorCall) -> OperatorCall | None:
    """Return the call on larger tensors, None where its work or its answer would grow faster than they do."""
    two, four = enlarged(call, 1 << 9), enlarged(call, 1 << 10)
    if two is None or four is None:
        return None
    try:
        small, large = _outputs(two.run()), _outputs(four.run())
    except _REFUSALS:  # such shapes
        return None
    grows = sum(x.numel() for x in large) > 2 * sum(x.numel() for x in small)
    tensors = [x for x in four.arguments if isinstance(x, torch.Tensor)]
    alike = len(tensors) == 1 or large[0].shape == tensors[0].shape
    return None if grows or not alike else enlarged(call, _ELEMENTS)


def _require_judged(call: OperatorCall) -> None:
    """See that a call's answers can be judged.

    Raises:
        Unwritable: they cannot, and why.
    """
    arguments = [x for x in call.arguments if isinstance(x, torch.Tensor)]
    if any(x.numel() == 0 for x in arguments):
        raise Unwritable("an input is empty")
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        try:
            results.append(call.run())
        except Exception as error:  # what an operator refuses, it refuses in its own way
            raise Unwritable(f"it raises {type(error).__name__}") from error
    first, second = (_outputs(one) for one in results)
    for value in first:
        if value.layout is not torch.strided or value.dtype is not torch.float32:
            raise Unwritable(f"it returns {value.dtype}, judged are dense float32 answers")
        if value.numel() == 0:
            raise Unwritable("its answer is empty")
        if not bool(torch.isfinite(value).all()):
            raise Unwritable("its answer is not finite")
    if not all(
        one.shape == two.shape and torch.equal(one, two)
        for one, two in zip(first, second, strict=True)
    ):
        raise Unwritable("equal inputs give different answers")
    if any(one.shape == x.shape and torch.equal(one, x) for one in first for x in arguments):
        raise Unwritable("its answer is its input: nothing is computed")
    if writes_or_shows(call):
        raise Unwritable(
            "its answer is a view of its input, or its input changes: nothing is computed"
        )


def _outputs(result: Any) -> tuple[torch.Tensor, ...]:
    values = (result,) if isinstance(result, torch.Tensor) else result
    if not isinstance(values, (tuple, list)) or not values:
        raise Unwritable(f"it returns a {type(result).__name__}")
    if len(values) > _MOST_OUTPUTS:
        raise Unwritable(f"it returns more than {_MOST_OUTPUTS} tensors")
    for value in values:
        if not isinstance(value, torch.Tensor):
            raise Unwritable(f"it returns a {type(value).__name__}")
    return tuple(values)


def writes_or_shows(call: OperatorCall) -> bool:
    """Say whether a call changes an argument, or answers with the memory of one."""
    try:
        # With an infinity among its values: running statistics change although they are told not to.
        return _run_writes(call, torch.inf)
    except _REFUSALS:
        return _run_writes(call, None)


def _run_writes(call: OperatorCall, value: float | None) -> bool:
    own = [_cloned(one) for one in call.arguments]
    options = {name: _cloned(one) for name, one in call.options.items()}
    given = [x for x in (*own, *options.values()) if isinstance(x, torch.Tensor)]
    if value is not None and given and given[0].is_floating_point():
        given[0].view(-1)[0] = value
    before = [x.clone() for x in given]
    function = OperatorCall(name=call.name, arguments=tuple(own), options=options)
    outputs = _outputs(function.run_in_place())
    places = {x.untyped_storage().data_ptr() for x in given}
    changed = any(not _same(one, two) for one, two in zip(before, given, strict=True))
    return changed or any(x.untyped_storage().data_ptr() in places for x in outputs)


def _cloned(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.is_floating_point() and bool(torch.isnan(one).any()):
        return True  # of what is no number to begin with nothing is known
    return torch.equal(one, two)


def _elements(call: OperatorCall) -> int:
    return sum(x.numel() for x in call.arguments if isinstance(x, torch.Tensor))


@contextmanager
def _repeatable() -> Iterator[None]:
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Have torch neither warn nor log: it prints the graphs of what it cannot trace."""
    logger = logging.getLogger("torch")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)
