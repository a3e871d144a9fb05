"""What is right: the truth in float64, and how far from it an answer may be."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from kb.errors import TaskError
from search import seeds
from search.costs.graph import OperatorGraph
from search.judging import inputs as distributions
from search.judging.bounds import (
    Slack,
    edges,
    finite,
    growth,
    measured_slack,
    told_slack,
    unsettled,
)
from search.judging.host_screen import HostScreen, first_line, graph_of
from search.judging.precision import rule
from search.judging.redraw import NOT_FINITE, RedrawnTrials
from search.judging.trial import (
    FreshBounds,
    InputTrial,
    RowCut,
    Sums,
    TrialBounds,
    TrialSet,
    sums_of,
)
from search.judging.trivial import probe
from search.judging.truth.errors import error_of, moved_errors
from search.judging.truth.numbers import met
from search.judging.truth.reference import Truth, Watched, away, plain, watched
from search.reference import WHOLE, Problem

_Bound = tuple[Slack, tuple[torch.Tensor, ...]]  # of an output, with the limits of indices
_EPS = 2.0**-23
_KERNELBENCH = (1e-4, 1e-4)  # absolute, relative
_USED = 4  # the framework takes more than this part of a tolerance: it was made for other inputs
_SAME_SHARE, _SAME = 1e-6, 1e-9  # relative and absolute: of two truths that are one
_QUIET = 5.0  # seconds between two lines of progress
_MOST_BYTES = 1 << 30  # of all trials together; beyond it they are made again when asked for


def make_trials(
    problem: Problem,
    seed: int | None = None,
    room: int = _MOST_BYTES,
    graph: OperatorGraph | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> TrialSet:
    """Draw the trials of `problem` and bound the right answers.

    Args:
        seed: that the draws follow from; None for a secret one each.
        room: bytes that the trials may take together; those beyond are drawn again when they are asked for.
        progress: is told which distribution's turn it is, every five seconds where they take so long.
        graph: of the reference, traced here where it is not given.

    Raises:
        TaskError: the reference cannot run in float64, or a trivial answer passes every trial.
    """
    truth, graph = Truth(problem), graph or graph_of(problem)
    sums, host = sums_of(problem, graph), HostScreen(problem, graph)
    trials: list[InputTrial] = []
    dropped: list[tuple[str, str]] = []
    shelf, names = RedrawnTrials(problem, truth), list(_names(problem))
    for number, name in _told_in_turn(names, progress):
        # The second set of the task's own inputs is what catches an answer kept from the first.
        drawn = seeds.secret() if seed is None else seed + 7919 * (number + 1)
        again = partial(_trial, problem, truth, name, drawn, sums)
        made, cut = _first_trial(problem, shelf, partial(again, host=host), (name, drawn, sums))
        if isinstance(made, str):
            dropped.append((name, made))
            if made == NOT_FINITE and distributions.may_be_positive(name):
                names.append(name + distributions.POSITIVE)
            continue
        room = -1 if cut is not None else room - made.fresh.nbytes
        if room < 0:
            made = shelf.redrawn(made, drawn, again, cut)
        else:
            made.recall()  # the truth, which takes more memory, is let go
        trials.append(made)
    trial_set = TrialSet(
        trials=tuple(trials),
        dropped=tuple(dropped),
        sums=sums,
        widened=_widened(trials),
        cut=shelf.cut,
        forget=shelf.forget,
        least_factor=host.least_factor,
        repeats=not problem.special and not host.asked and _repeats(problem, trials),
    )
    return replace(trial_set, degenerate=probe(problem, trial_set))


def _repeats(problem: Problem, trials: Sequence[InputTrial]) -> bool:
    """Say whether one seed draws the same inputs twice, which trials that are drawn again by seeds rest on in any case."""
    if any(trial.given is not None for trial in trials):
        return True
    seed = seeds.secret()
    pairs = zip(problem.draw(seed), problem.draw(seed), strict=True)
    return all(
        torch.equal(a, b)
        for a, b in pairs
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    )


def trials_of(
    problem: Problem, measured: TrialSet | None, room: int, progress: Callable[[str], None]
) -> TrialSet:
    """Return the trials of a judge, see `make_trials`; after another one that has measured the task, see `draw_again`."""
    if measured is not None:
        return draw_again(problem, measured)
    return make_trials(problem, room=room, progress=progress)


def draw_again(problem: Problem, measured: TrialSet) -> TrialSet:
    """Return trials on other inputs, whose bounds are made when they are asked for.

    What right answers are off by was measured: an answer that is as near to the framework's as that allows takes no
    truth to see that it is right. Of others the truth and the bounds are found, on these very inputs.

    Args:
        measured: from `TrialSet.measured`.
    """
    truth = Truth(problem)
    shelf = RedrawnTrials(problem, truth)
    trials = []
    for one in measured.trials:
        seed = seeds.secret()
        again = partial(_trial, problem, truth, one.distribution, seed, measured.sums)
        trials.append(shelf.drawn(one, seed, again, measured.cut))
    return replace(measured, trials=tuple(trials), forget=shelf.forget)


def _told_in_turn(names: list[str], progress: Callable[[str], None]) -> Iterator[tuple[int, str]]:
    """Yield what is in a list, which may grow, with its number; where that takes long, say whose turn it is."""
    said = time.monotonic()
    for number, name in enumerate(names):
        if time.monotonic() - said > _QUIET:
            said = time.monotonic()
            progress(f"the reference in float64 on '{name}' inputs, {number + 1} of {len(names)}")
        yield number, name


def _widened(trials: list[InputTrial]) -> tuple[str, ...]:
    return tuple(
        trial.distribution
        for trial in trials
        if any(slack.told is not None and slack.seen is not None for slack in trial.slack)
    )


def _first_trial(
    problem: Problem,
    shelf: RedrawnTrials,
    whole: Callable[[], InputTrial | str],
    asked: tuple[str, int, Sums],
) -> tuple[InputTrial | str, RowCut | None]:
    """Return a trial, or why it cannot be one, and how its inputs were cut where the whole took too much memory.

    Memory decides whether a task is judged, and no distribution.

    Args:
        whole: makes it without a cut.
        asked: distribution, seed, and how long sums are.

    Raises:
        torch.OutOfMemoryError: it does not fit.
    """
    name, seed, sums = asked
    try:
        try:
            return whole(), None
        except torch.OutOfMemoryError:
            if problem.special or name == distributions.SPECIAL:
                raise
        gc.collect()  # here, where no frame of the error holds tensors
        torch.cuda.empty_cache()
        inputs = distributions.draw(problem, name, seed)
        truth = Truth(problem)

        def bounded(some: tuple[Any, ...]) -> InputTrial | str:
            return _bounded(problem, truth, name, some, plain(problem.run(*some)), sums)

        return shelf.in_parts(inputs, bounded)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the user's program may raise anything
        return _refusal(problem, name, error), None


def _refusal(problem: Problem, name: str, error: Exception) -> str:
    """Return why the reference takes no such inputs.

    Raises:
        TaskError: they are its own.
    """
    first = first_line(error)
    if isinstance(error, torch.AcceleratorError):
        raise TaskError(
            f"{problem.task.reference}: a kernel of the reference failed on '{name}' inputs and ended all work on the device "
            f"({first[:120]}): keep values and indices in range inside forward, e.g. by clamp"
        ) from error
    if name == "task":
        raise TaskError(
            f"{problem.task.reference}: the reference cannot run in float64 ({first[:200]}): do not fix dtypes inside "
            "forward"
        ) from error
    return f"the reference refuses it: {first[:120]}"


def _names(problem: Problem) -> tuple[str, ...]:
    wide = (distributions.WIDE,) if rule(problem) == "tf32" else ()
    special = (distributions.SPECIAL,) if problem.task.settings.special_values else ()
    return ("task", *distributions.DISTRIBUTIONS, *wide, *special)


def _trial(
    problem: Problem,
    truth: Truth,
    name: str,
    seed: int,
    sums: Sums,
    host: HostScreen | None = None,
) -> InputTrial | str:
    """Return a trial, or why it cannot be one."""
    if host is not None and name != "task" and (refused := host.refusal(name, seed)):
        return refused
    inputs = distributions.draw(problem, name, seed)
    return _bounded(problem, truth, name, inputs, _answered(problem, inputs), sums)


def _answered(
    problem: Problem, inputs: tuple[Any, ...], state: Mapping[str, torch.Tensor] | None = None
) -> Watched:
    return watched(problem, lambda: problem.run(*inputs, state=state))


def bounds_of(
    problem: Problem,
    trial_set: TrialSet,
    name: str,
    inputs: tuple[Any, ...],
    eager: tuple[torch.Tensor, ...],
    state: Mapping[str, torch.Tensor] | None,
) -> InputTrial | None:
    """Return the bounds of a right answer to these very inputs, None where no answer can be bounded.

    What is allowed on a trial's inputs is nearly what is allowed on others of its distribution. Where one
    element decides how exact an answer can be, it is not.

    Args:
        eager: the framework's answer to them.
        state: the parameters, where they are not the problem's own.
    """
    # The values at indices are known only where the framework is seen to look for them.
    answered = _answered(problem, inputs, state) if problem.special else plain(eager)
    made = _bounded(problem, Truth(problem, state), name, inputs, answered, trial_set.sums)
    return None if isinstance(made, str) else made


def _bounded(
    problem: Problem,
    truth: Truth,
    name: str,
    inputs: tuple[Any, ...],
    answered: Watched,
    sums: Sums,
) -> InputTrial | str:
    known = watched(problem, lambda: truth(inputs))
    eager, exact = answered.values, tuple(value.double() for value in known.values)
    special = name == distributions.SPECIAL
    if not special and not finite((*eager, *exact)):
        return NOT_FINITE
    errors = [error_of(one, other) for one, other in zip(eager, exact, strict=True)]
    own = eager if special else None
    del eager
    if not problem.special:
        answered = known  # it is asked for indices and factors alone, and takes memory
    told = _told(problem)
    if told is not None and _keeps(errors, exact, told):
        bounds: list[_Bound] = [(told_slack(*told), ()) for _ in exact]
    else:
        bounds = _measured(problem, truth, name, inputs, exact, errors, sums)
    slack = [one for one, _ in bounds]
    limits = tuple(usual for _, usual in bounds)
    pinned = _pinned(problem, truth, inputs, answered, known)
    for number in pinned:
        slack[number] = told_slack(0.0, 0.0)
    dtypes, lookups = [layout.dtype for layout in problem.outputs], known.lookups
    each = zip(known.outputs, dtypes, lookups, strict=True)
    whole = tuple(x.to(t) if t in WHOLE or found else None for x, t, found in each)

    def make(exact: tuple[torch.Tensor, ...]) -> TrialBounds:
        low, high = (list(edge) for edge in edges(exact, slack, limits))
        for number, (least, greatest) in pinned.items():
            low[number], high[number] = least, greatest
        return TrialBounds(
            inputs=inputs,
            low=tuple(low),
            high=tuple(high),
            special=own,
            written=truth.written_out(inputs) if special else (),
            whole=whole,
            lookups=lookups,
        )

    fresh = FreshBounds(inputs, exact, make)
    if problem.special or special:
        fresh()
    return InputTrial(distribution=name, slack=tuple(slack), limits=limits, recall=fresh)


def _pinned(
    problem: Problem,
    truth: Truth,
    inputs: tuple[Any, ...],
    answered: Watched,
    known: Watched,
) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Return by output the least and the greatest that is right, where that follows from no error."""
    pinned = met(problem, truth, inputs, answered, known)
    given = (*inputs, *problem.state.values())
    rounded = any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in given)
    for number, lookup in enumerate(known.lookups):
        if lookup is not None and lookup.whole and not rounded:  # the very values are known
            pinned[number] = (known.values[number], known.values[number])
    return pinned


def _measured(  # noqa: PLR0913 - what a trial consists of
    problem: Problem,
    truth: Truth,
    name: str,
    inputs: tuple[Any, ...],
    exact: tuple[torch.Tensor, ...],
    errors: list[torch.Tensor],
    sums: Sums,
) -> list[_Bound]:
    """Return by output what follows from the errors that right answers were seen to have."""
    told, kind = _told(problem), distributions.plain_name(name)
    one_sided = kind in distributions.ONE_SIDED
    counts = (max(count, sums.recurrence) for count in sums.terms)
    grown = tuple(growth(count, one_sided=one_sided) for count in counts)
    also = (away,) if kind == distributions.FEW_LARGE else ()
    moved = moved_errors(problem, truth, inputs, exact, errors, grown, also)
    precision = "strict" if told is not None else rule(problem)
    types = [layout.dtype for layout in problem.outputs]
    bounds: list[_Bound] = [
        measured_slack(
            value, error, count, precision, one_sided=one_sided, moved=places, dtype=dtype
        )
        for value, error, count, places, dtype in zip(
            exact, errors, sums.terms, moved, types, strict=True
        )
    ]
    if sums.recurrence > 1:
        # A gate that rounding opens or shuts keeps its state for steps: which of the units it is, is luck.
        pairs = zip(bounds, exact, strict=True)
        bounds = [(unsettled(slack, value), ()) for (slack, _), value in pairs]
    return [(replace(slack, told=told), limits) for slack, limits in bounds]


def _told(problem: Problem) -> tuple[float, float] | None:
    """Return the absolute and relative tolerance that the task gives, if it gives any."""
    precision = problem.task.settings.precision
    if not isinstance(precision, str):
        return precision.absolute, precision.relative
    return _KERNELBENCH if precision == "kernelbench" else None


def _keeps(
    errors: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], told: tuple[float, float]
) -> bool:
    """Say whether the framework's errors are well within tolerances, another right answer's too."""
    return all(
        bool((_USED * error <= value.abs() * told[1] + told[0]).all())
        for error, value in zip(errors, exact, strict=True)
    )
