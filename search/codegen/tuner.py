"""Numeric choices by Optuna, from what the run has measured so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from kb.records.schema import Choices, Knob
from search.codegen.library import Value

_ASKED = 24
_LISTED = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSetting:
    """A setting that was judged.

    Attributes:
        cost: what to make small; None where the candidate failed.
    """

    knobs: Mapping[str, Value]
    cost: float | None


def suggestions(
    knobs: Mapping[str, Knob], trials: Sequence[JudgedSetting], seed: int
) -> Iterator[dict[str, Value]]:
    """Yield settings worth trying, the most promising first; the same for the same arguments.

    The sampler proposes first; then every setting of a small space follows, so that a short list
    is tried to its end.
    """
    if not knobs:
        return
    # Optuna takes a second to import, and a run with a model never needs it.
    import optuna
    from optuna.trial import TrialState, create_trial

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spaces = {name: _distribution(knob) for name, knob in knobs.items()}
    sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=4)
    study = optuna.create_study(sampler=sampler)
    for trial in trials:
        state = TrialState.FAIL if trial.cost is None else TrialState.COMPLETE
        params = {name: trial.knobs[name] for name in spaces if name in trial.knobs}
        if len(params) == len(spaces):
            study.add_trial(
                create_trial(
                    state=state, value=trial.cost, params=params, distributions=dict(spaces)
                )
            )
    for _ in range(_ASKED):
        asked = study.ask(fixed_distributions=dict(spaces))
        yield dict(asked.params)
        study.tell(asked, state=TrialState.FAIL)
    names = list(knobs)
    for values in islice(product(*(_values(knobs[name]) for name in names)), _LISTED):
        yield dict(zip(names, values, strict=True))


def _distribution(knob: Knob) -> Any:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    if isinstance(knob, Choices):
        return CategoricalDistribution(knob.choices)
    return IntDistribution(knob.low, knob.high, step=knob.step)


def _values(knob: Knob) -> Sequence[Value]:
    if isinstance(knob, Choices):
        return knob.choices
    return range(knob.low, knob.high + 1, knob.step)
