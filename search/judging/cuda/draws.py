"""The inputs of timed calls on a device: new values each time, and the same again when asked."""

from __future__ import annotations

import random
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from search import seeds
from search.judging import inputs as distributions
from search.judging.trial import InputTrial, TrialSet
from search.reference import Problem

_AUDITED = 10  # calls for each that is audited
_BUDGET = 0.02  # seconds that new draws of get_inputs() may take for one batch
_SHARE = 0.02  # of the time, where one draw takes longer
_MOST_BASES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one call is given.

    Attributes:
        base: a draw of ``get_inputs()``, kept where no candidate reaches.
        seed: of all that differs from it; kept, and never derived from another.
        trial: of the same distribution, whose bounds the answer must keep.
        audit: it is of another distribution than the task's own.
    """

    base: tuple[Any, ...]
    seed: int
    trial: InputTrial
    audit: bool


class Draws:
    """Makes the inputs of timed calls.

    Args:
        clock: seconds, as time passes.
    """

    def __init__(
        self, problem: Problem, trial_set: TrialSet, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._problem, self._trial_set, self._clock = problem, trial_set, clock
        self._floating = any(
            isinstance(x, torch.Tensor) and x.is_floating_point() for x in problem.inputs
        )
        self._bases: deque[tuple[Any, ...]] = deque(maxlen=1 if self._floating else _MOST_BASES)
        self._cost, self._renewed = 0.0, -1e9
        self._audited = [trial for trial in trial_set.trials[1:] if trial.special is None]
        spikes = distributions.is_spiked
        self._spiked = [trial for trial in self._audited if spikes(trial.distribution)]
        self._kept = False

    def keep_one(self) -> None:
        """Scale the problem's own inputs for every call, where that makes all of them new: another draw takes memory."""
        tensors = [x for x in self._problem.inputs if isinstance(x, torch.Tensor)]
        self._kept = bool(tensors) and all(x.is_floating_point() for x in tensors)

    def draw(self, calls: int, *, audits: bool) -> list[Given]:
        """Return what `calls` calls are given.

        Args:
            audits: about one in ten is drawn from another distribution, which ones is secret.
        """
        bases = self._fresh(calls)
        chance = random.SystemRandom()
        # One in ten on average, for batches of fewer than ten too.
        count = sum(chance.random() * _AUDITED < 1 for _ in range(calls)) if audits else 0
        audited = set(chance.sample(range(calls), count))
        return [
            Given(
                base=bases[number % len(bases)],
                seed=seeds.secret(),
                trial=self._trial() if number in audited else self._trial_set.trials[0],
                audit=number in audited,
            )
            for number in range(calls)
        ]

    def make(self, given: Given, places: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Return the inputs of a call, on the device.

        Of the task's own distribution every floating-point element is scaled by its own factor, see `scaled_apart`.

        Args:
            places: of these inputs; they are made there where that spares memory, and are not always there afterwards.
        """
        name = given.trial.distribution
        if name != "task" and not distributions.is_spiked(name):
            return distributions.redrawn(given.base, name, given.seed)
        least = self._trial_set.least_factor
        made = distributions.scaled_apart(given.base, given.seed, least, places)
        return made if name == "task" else distributions.redrawn(made, name, given.seed, own=True)

    def _trial(self) -> InputTrial:
        if not self._audited:
            return self._trial_set.trials[0]
        # Spikes are what a program does not see that guesses its range from some elements.
        likely = self._spiked if self._spiked and secrets.randbits(1) else self._audited
        return secrets.choice(likely)

    def _fresh(self, calls: int) -> list[tuple[Any, ...]]:
        """Return draws of ``get_inputs()``: new ones as far as time allows, the newest first.

        Where no element is a floating-point number, nothing but another draw makes new inputs.
        """
        if self._kept:
            return [self._problem.inputs]
        now = self._clock()
        wanted = 1 if self._floating else calls
        if self._cost <= _BUDGET:
            count = min(wanted, int(_BUDGET / max(self._cost, 1e-9)))
        else:
            count = int(now - self._renewed >= self._cost / _SHARE)
        for _ in range(max(count, int(not self._bases))):
            began = self._clock()
            if self._bases.maxlen == 1:
                self._bases.clear()  # first: there may be room for one
            self._bases.appendleft(self._problem.draw(seeds.secret()))
            self._cost = self._clock() - began
            self._renewed = now
        return list(self._bases)
