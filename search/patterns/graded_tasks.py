"""What helped tasks like this one: tasks whose records experts graded, and a ridge regression over their states.

Patterns are written by hand and know what they were written for. The graded tasks speak where no pattern
does: a record that helped tasks like this one probably helps it too. Kernel ridge regression with a
linear kernel (Saunders, Gammerman and Vovk 1998) over what a task computes and says, and over the idea, the
fault or the symptoms at hand; rare features are weighted up as in tf-idf. Tasks for another kind of device tell
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from kb.config import shipped_docs
from kb.retrieval.multi_query import Expected
from kb.words import split_words
from search.patterns.recognise import ReferenceTraits

FILE = Path("graded") / "tasks.json"
RIDGE = 0.25  # added to the kernel's diagonal: how much a single graded task is mistrusted
OTHER_STAGE = 0.6  # what a task that was graded for another stage tells, beside 1
# What the likeness of two tasks counts, by what they are alike in.
LIKENESS: Mapping[str, float] = {
    "computation": 0.6,  # traits and operator families
    "operator": 0.25,
    "word": 0.15,  # of names and docstrings
    "idea": 0.6,  # the words of an idea that is to be written
    "fault": 1.0,  # the kind of a failure and the words of its report
    "symptom": 0.3,  # of a program that was measured
}
FAMILIES = 2.0  # what an operator family with the whole cost weighs, beside a trait
REPORTED = 0.5  # what a word of a report weighs, beside the kind of the failure
CENTRAL = 3  # the highest grade
HELPS = 2  # the least grade of a record that helped
LEAST = 0.02  # expected gain below which a record is not named
DIGITS = 3  # so that another machine's arithmetic asks the same
_LIKE = 2  # graded tasks that are named as like this one
_STAGES = {"ideas": 0, "plateau": 0, "draft": 1, "repair": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """A task, and what a search on it is about to write.

    Attributes:
        device: kind of device: ``cpu`` or ``gpu``.
        shares: of the reference's estimated cost, by operator family.
        operators: plain ATen names.
        words: of the reference's names and docstrings.
        symptoms: of a program that was measured, () before.
        outcome: kind of the failure that is to be mended, "" where none is.
        told: words of the idea that is to be written, or of what was reported of the failure.
    """

    device: str
    stage: str
    traits: frozenset[str]
    shares: Mapping[str, float]
    operators: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    symptoms: tuple[str, ...] = ()
    outcome: str = ""
    told: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        program: ReferenceTraits,
        device: str,
        stage: str,
        *,
        symptoms: Sequence[str] = (),
        outcome: str = "",
        told: str = "",
    ) -> TaskState:
        """Return the state of a task whose reference was read.

        Args:
            told: the idea, or what was reported.
        """
        return cls(
            device=device,
            stage=stage,
            traits=frozenset(program.traits),
            shares=program.shares,
            operators=program.operators,
            words=program.text.words,
            symptoms=tuple(symptoms),
            outcome=outcome,
            told=frozenset(split_words(told)),
        )

    def features(self) -> Iterator[tuple[str, str, float]]:
        """Yield what it is compared by: a key of `LIKENESS`, a name and a value."""
        for one in self.traits:
            yield "computation", f"is {one}", 1.0
        for one, share in self.shares.items():
            yield "computation", f"family {one}", FAMILIES * sqrt(share)
        for kind, names in (
            ("operator", self.operators),
            ("word", self.words),
            ("symptom", self.symptoms),
            ("idea", self.told if self.stage == "draft" else ()),
        ):
            for one in names:
                yield kind, one, 1.0
        if self.stage == "repair":
            yield "fault", f"outcome {self.outcome}", 1.0
            for one in self.told:
                yield "fault", one, REPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedTask:
    """One state of a search on a task, graded.

    Attributes:
        grades: of records, as ``ideas/online-softmax``: 3 central, 2 helps, 1 related.
        unknown: records that came to the library after it was graded.
    """

    task: str
    state: TaskState
    grades: Mapping[str, int]
    unknown: frozenset[str] = field(default_factory=frozenset)


class GradedTasks:
    """Predicts grades of records for a task from those of others."""

    def __init__(self, tasks: Sequence[GradedTask]) -> None:
        self._tasks = tuple(tasks)
        self._rarity = _rarity(tasks)
        self._vectors = np.array([self._vector(one.state) for one in tasks])
        self._devices = np.array([one.state.device for one in tasks])
        self._stages = np.array([_STAGES[one.state.stage] for one in tasks])
        self.names = tuple(sorted({name for one in tasks for name in one.grades}))
        self._grades = np.array([[one.grades.get(name, 0) for name in self.names] for one in tasks])
        self._weights = self._fit()

    def without(self, task: str) -> GradedTasks:
        """Return the graded tasks but one, to ask about this one as about a new one.

        What a ridge regression without some rows comes to follows from the whole one.
        """
        gone = np.array([one.task == task for one in self._tasks])
        weights = self._weights.copy()
        for rows, columns, inverse in self._inverses:
            out = gone[rows]
            if out.any():
                fitted = weights[np.ix_(rows, columns)].reshape(len(inverse), -1)
                fitted -= inverse[:, out] @ np.linalg.solve(inverse[np.ix_(out, out)], fitted[out])
                weights[np.ix_(rows, columns)] = fitted.reshape(len(fitted), -1, 2)
        left = copy(self)
        left._tasks = tuple(one for one in self._tasks if one.task != task)
        left._vectors, left._grades = self._vectors[~gone], self._grades[~gone]
        left._devices, left._stages = self._devices[~gone], self._stages[~gone]
        named: np.ndarray = np.any(left._grades, axis=0)
        left._weights = weights[~gone][:, named]
        left.names = tuple(name for name, known in zip(self.names, named, strict=True) if known)
        left.__dict__.pop("_inverses", None)
        return left

    def expected(self, state: TaskState) -> tuple[Expected, ...]:
        """Return the records that are expected to help, the best first."""
        if not state.traits:
            return ()
        own = self._vectors @ self._vector(state)
        near = own * self._related(state)
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

    def _related(self, state: TaskState) -> np.ndarray:
        """Return what each graded task tells by its device and stage."""
        same = self._stages == _STAGES[state.stage]
        related: np.ndarray = (self._devices == state.device) * np.where(same, 1.0, OTHER_STAGE)
        return related

    def _fit(self) -> np.ndarray:
        """Return the dual weights by graded task, record and measure: gain, any use."""
        gains = (2.0**self._grades - 1) / (2.0**CENTRAL - 1)
        wanted = np.stack([gains, np.minimum(self._grades, 1.0)], axis=-1)
        weights = np.zeros(wanted.shape)
        for rows, columns, ridged in self._systems():
            known = wanted[np.ix_(rows, columns)]
            solved = np.linalg.solve(ridged, known.reshape(len(known), -1))
            weights[np.ix_(rows, columns)] = solved.reshape(known.shape)
        return weights

    @cached_property
    def _inverses(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return [(rows, columns, np.linalg.inv(one)) for rows, columns, one in self._systems()]

    def _systems(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield sets of tasks, the records that these tasks alone knew, and their ridged kernel.

        A record that was not in the library yet when a task was graded is fitted without this task.
        """
        related = np.array([self._related(one.state) for one in self._tasks])
        kernel = self._vectors @ self._vectors.T * related
        known_to = np.array(
            [[name not in one.unknown for name in self.names] for one in self._tasks]
        )
        for rows in np.unique(known_to, axis=1).T:
            columns = (known_to == rows[:, None]).all(axis=0)
            yield rows, columns, kernel[np.ix_(rows, rows)] + RIDGE * np.eye(int(rows.sum()))

    def _vector(self, state: TaskState) -> np.ndarray:
        """Return a state as a vector; what no graded task has is left out.

        Its parts have the length that their likeness counts.
        """
        vector = np.zeros(len(self._rarity))
        parts: dict[str, list[int]] = {}
        for kind, name, value in state.features():
            known = self._rarity.get((kind, name))
            if known is not None:
                place, weight = known
                vector[place] = value * weight
                parts.setdefault(kind, []).append(place)
        for kind, places in parts.items():
            vector[places] *= sqrt(LIKENESS[kind]) / float(np.linalg.norm(vector[places]))
        return vector


def _reason(nearest: Sequence[GradedTask], name: str) -> str:
    """Name the two most similar graded tasks that a record helped."""
    helped: dict[str, None] = {}
    for one in nearest:
        if one.grades.get(name, 0) >= HELPS:
            helped[one.task] = None
        if len(helped) == _LIKE:
            break
    like = f": {', '.join(helped)}" if helped else ""
    return f"graded as helping tasks like this one{like}"


def _rarity(tasks: Sequence[GradedTask]) -> dict[tuple[str, str], tuple[int, float]]:
    """Return each feature's place, and what it weighs: the rarer among the tasks, the more.

    But for traits and families, what one task alone has likens it to no other and is left out.
    """
    having: dict[tuple[str, str], set[str]] = {}
    for one in tasks:
        for kind, name, value in one.state.features():
            if value:
                having.setdefault((kind, name), set()).add(one.task)
    count = len({one.task for one in tasks})
    kept = sorted(
        (key, len(members))
        for key, members in having.items()
        if len(members) > 1 or key[0] == "computation"
    )
    return {
        key: (place, sqrt(max(log((count + 1) / (members + 0.5)), 0.1)))
        for place, (key, members) in enumerate(kept)
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
            state=TaskState(
                device=case["device"],
                stage=case["stage"],
                traits=frozenset(task["traits"]),
                shares=task["shares"],
                operators=frozenset(task["operators"]),
                words=frozenset(task["words"]),
                symptoms=tuple(case.get("symptoms", ())),
                outcome=case.get("outcome", ""),
                told=frozenset(case.get("told", ())),
            ),
            grades=case["grades"],
            unknown=frozenset(loaded["unknown"][task["generation"]]),
        )
        for task in loaded["tasks"]
        for case in task["cases"]
    ]
