"""The inputs of each round of timed calls."""

from __future__ import annotations

import random
import secrets

from search import seeds
from search.judging import inputs as distributions
from search.judging.cpu.timing import Drawn
from search.judging.trial import InputTrial, TrialSet
from search.reference import Problem


class RoundDraws:
    """Draws from secret seeds: the task's own inputs, or for an audit those of some distribution."""

    def __init__(self, problem: Problem, trial_set: TrialSet) -> None:
        self._problem = problem
        self._trial_set = trial_set
        self._next: list[InputTrial] = []  # of the next audits

    def draw(self, audit: bool) -> Drawn:
        """Return what a round is called with."""
        trial = self._audited() if audit else self._trial_set.trials[0]
        inputs = distributions.draw(self._problem, trial.distribution, seeds.secret())
        state = None if self._problem.packs else distributions.scaled(self._problem.state)
        return Drawn(inputs=inputs, state=state, trial=trial, audit=audit)

    def _audited(self) -> InputTrial:
        """Return the trial whose distribution the next audit is of: of every three, two are spiked.

        Where the task asks for infinities and NaN, one in four has such.

        Spikes are what a program does not see that guesses its range from some elements.
        """
        if not self._next:
            trials = [trial for trial in self._trial_set.trials[1:] if trial.special is None]
            spiked = [trial for trial in trials if distributions.is_spiked(trial.distribution)]
            others = [trial for trial in trials if trial.distribution != "task"] or trials
            others = others or list(self._trial_set.trials[:1])
            spikes = [secrets.choice(spiked) for _ in range(2)] if spiked else []
            special = [trial for trial in self._trial_set.trials if trial.special is not None]
            self._next = [*spikes, *special, secrets.choice(others)]
            random.SystemRandom().shuffle(self._next)
        return self._next.pop()
