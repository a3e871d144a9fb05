"""What helped tasks like this one: tasks whose records experts graded, and a ridge regression over their traits.

Patterns are written by hand and know what they were written for. The graded tasks speak where no pattern
does: a record that helped tasks with the same traits probably helps this one. Kernel ridge regression with a
linear kernel (Saunders, Gammerman and Vovk 1998) over traits and operator families, rare ones weighted up as
in tf-idf; tasks for another kind of device tell nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from kb.config import shipped_docs
from kb.retrieval.multi_query import Expected
from search.patterns.recognise import ReferenceTraits

FILE = Path("graded") / "tasks.json"
RIDGE = 0.3  # added to the kernel's diagonal: how much a single graded task is mistrusted
OTHER_STAGE = 0.6  # what a task that was graded for another stage tells, beside 1
FAMILIES = 2.0  # what an operator family with the whole cost weighs, beside a trait
CENTRAL = 3  # the highest grade
HELPS = 2  # the least grade of a record that helped
LEAST = 0.02  # expected gain below which a record is not named
DIGITS = 3  # so that another machine's arithmetic asks the same
_STAGES = {"ideas": 0, "plateau": 0, "draft": 1, "repair": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedTask:
    """One state of a search on a task, graded.

    Attributes:
        device: kind of device: ``cpu`` or ``gpu``.
        shares: of the reference's estimated cost, by operator family.
        grades: of records, as ``ideas/online-softmax``: 3 central, 2 helps, 1 related.
        unknown: records that came to the library after it was graded.
    """

    task: str
    device: str
    stage: str
    traits: frozenset[str]
    shares: Mapping[str, float]
    grades: Mapping[str, int]
    unknown: frozenset[str] = frozenset()


class GradedTasks:
    """Predicts grades of records for a task from those of others."""

    def __init__(self, tasks: Sequence[GradedTask]) -> None:
        self._tasks = tasks
        self._rarity = _rarity(tasks)
        self._vectors = np.array([self._vector(one.traits, one.shares) for one in tasks])
        self.names = tuple(sorted({name for one in tasks for name in one.grades}))
        grades = np.array([[one.grades.get(name, 0) for name in self.names] for one in tasks])
        gains = (2.0**grades - 1) / (2.0**CENTRAL - 1)
        self._weights = self._fit(np.stack([gains, np.minimum(grades, 1.0)], axis=-1))

    def without(self, task: str) -> GradedTasks:
        """Return the graded tasks but one, to ask about this one as about a new one."""
        return GradedTasks([one for one in self._tasks if one.task != task])

    def expected(self, program: ReferenceTraits, device: str, stage: str) -> tuple[Expected, ...]:
        """Return the records that are expected to help, the best first.

        Args:
            device: kind of the target, ``cpu`` or ``gpu``.
        """
        if not program.traits:
            return ()
        own = self._vectors @ self._vector(frozenset(program.traits), program.shares)
        near = own * self._related(device, stage)
        # Rounded before they are sorted: another number of threads changes the last digits, and what a
        # run was given is found again by exactly what it asked.
        gain, useful = np.round(np.einsum("t,tnk->kn", near, self._weights), DIGITS) + 0.0
        near = np.round(near, DIGITS)
        order = np.argsort(-gain, kind="stable")
        nearest = [self._tasks[row] for row in np.argsort(-near, kind="stable") if near[row] > 0]
        return tuple(
            Expected(
                record=self.names[column],
                gain=float(gain[column]),
                useful=float(useful[column]),
                reason=_reason(nearest, self.names[column]),
            )
            for column in order
            if gain[column] >= LEAST
        )

    def _related(self, device: str, stage: str) -> np.ndarray:
        """Return what each graded task tells by its device and stage."""
        mine = _STAGES[stage]
        return np.array(
            [
                float(one.device == device) * (1.0 if _STAGES[one.stage] == mine else OTHER_STAGE)
                for one in self._tasks
            ]
        )

    def _fit(self, wanted: np.ndarray) -> np.ndarray:
        """Return the dual weights of measures, by graded task, record and measure.

        A record that was not in the library yet when a task was graded is fitted without this task.

        Args:
            wanted: the measures that the weights are to give back, in the same shape.
        """
        related = np.array([self._related(one.device, one.stage) for one in self._tasks])
        kernel = self._vectors @ self._vectors.T * related
        weights = np.zeros(wanted.shape)
        known_to = np.array(
            [[name not in one.unknown for name in self.names] for one in self._tasks]
        )
        for rows in np.unique(known_to, axis=1).T:
            columns = (known_to == rows[:, None]).all(axis=0)
            ridged = kernel[np.ix_(rows, rows)] + RIDGE * np.eye(int(rows.sum()))
            known = wanted[np.ix_(rows, columns)]
            solved = np.linalg.solve(ridged, known.reshape(len(known), -1))
            weights[np.ix_(rows, columns)] = solved.reshape(known.shape)
        return weights

    def _vector(self, traits: frozenset[str], shares: Mapping[str, float]) -> np.ndarray:
        """Return a task as a vector of length one; what no graded task has is left out."""
        vector = np.zeros(len(self._rarity))
        for place, (name, weight) in enumerate(self._rarity.items()):
            kind, _, wanted = name.partition(" ")
            held = (
                float(wanted in traits)
                if kind == "is"
                else FAMILIES * sqrt(shares.get(wanted, 0.0))
            )
            vector[place] = held * weight
        length = float(np.linalg.norm(vector))
        return vector / length if length else vector


def _reason(nearest: Sequence[GradedTask], name: str) -> str:
    """Name the two most similar graded tasks that a record helped."""
    helped = dict.fromkeys(one.task for one in nearest if one.grades.get(name, 0) >= HELPS)
    like = f": {', '.join(list(helped)[:2])}" if helped else ""
    return f"graded as helping tasks with the same traits{like}"


def _rarity(tasks: Sequence[GradedTask]) -> dict[str, float]:
    """Return what each trait and family weighs: the rarer among the tasks, the more."""
    having: dict[str, set[str]] = {}
    for one in tasks:
        named = [f"is {name}" for name in one.traits] + [f"family {name}" for name in one.shares]
        for name in named:
            having.setdefault(name, set()).add(one.task)
    count = len({one.task for one in tasks})
    return {
        name: sqrt(max(log((count + 1) / (len(members) + 0.5)), 0.1))
        for name, members in sorted(having.items())
    }


@lru_cache(maxsize=1)
def shipped_tasks() -> GradedTasks:
    """Return the graded tasks that come with `kb`."""
    return GradedTasks(read_tasks(shipped_docs() / FILE))


def read_tasks(path: Path) -> list[GradedTask]:
    """Read graded tasks as `benchmarks/loop_retrieval` writes them."""
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return [
        GradedTask(
            task=task["task"],
            device=case["device"],
            stage=case["stage"],
            traits=frozenset(task["traits"]),
            shares=task["shares"],
            grades=case["grades"],
            unknown=frozenset(loaded["unknown"][task["generation"]]),
        )
        for task in loaded["tasks"]
        for case in task["cases"]
    ]
