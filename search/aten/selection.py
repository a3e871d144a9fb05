"""The operators of the suite: each is examined in a process apart, which it may end or keep busy for good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Timer
from typing import Any

from kb.errors import TaskError
from search.aten.programs import Unwritable
from search.aten.rule import OperatorProblem
from search.aten.samples import OperatorSample

NUMBER = 160
_EXAMINERS = 4  # processes, at most
_SECONDS = 120.0  # for one operator; most take a tenth of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the rule comes to.

    Attributes:
        refused: operators that are no problem, with the reason.
    """

    chosen: tuple[OperatorProblem, ...]
    refused: tuple[tuple[str, str], ...]


def select_operators(
    progress: Callable[[str], None] = lambda _: None,
    number: int = NUMBER,
    only: Iterable[str] | None = None,
) -> Selection:
    """Apply the rule to the torch that is installed.

    Args:
        progress: is told of every fiftieth operator.
        number: of operators that the suite has.
        only: names of operators to look at; None for all.
    """
    workers = min(_EXAMINERS, len(os.sched_getaffinity(0)))
    examiners = [_Examiner(_SECONDS) for _ in range(workers)]
    pool = ThreadPoolExecutor(workers)
    try:
        names = examiners[0].names()
        wanted = set(names if only is None else only)
        places = [place for place, name in enumerate(names) if name in wanted]
        found: list[OperatorProblem] = []
        refused: list[tuple[str, str]] = []
        asked = pool.map(_ask(examiners), places)
        for done, (place, answer) in enumerate(zip(places, asked, strict=True), start=1):
            if isinstance(answer, OperatorProblem):
                found.append(answer)
            else:
                refused.append((names[place], str(answer)))
            if done % 50 == 0:
                progress(f"reading torch's OpInfo: {done} of {len(places)} operators")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for one in examiners:
            one.close()
    found.sort(key=lambda one: (-one.samples, one.name))
    refused += [(one.name, f"beyond the first {number}") for one in found[number:]]
    chosen = tuple(sorted(found[:number], key=lambda one: one.name))
    return Selection(chosen=chosen, refused=tuple(sorted(refused)))


def _ask(examiners: list[_Examiner]) -> Callable[[int], OperatorProblem | Unwritable]:
    """Return what has a free examiner look at the operator of a place."""
    free = list(examiners)

    def ask(place: int) -> OperatorProblem | Unwritable:
        one = free.pop()
        try:
            return one.examine(place)
        except Unwritable as reason:
            return reason
        finally:
            free.append(one)

    return ask


def _end(process: subprocess.Popen[str], late: Event) -> None:
    late.set()
    process.kill()


class _Examiner:
    """A process that examines one operator after another, and another one where it ended."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def names(self) -> list[str]:
        """Return the names of all operators, by place."""
        return list(self._started()[1])

    def examine(self, place: int) -> OperatorProblem:
        """Return the problem of an operator; it is asked again where its process ended, which others may have filled.

        Raises:
            Unwritable: it is none, or its process ended twice.
        """
        answer = self._asked(place) or self._asked(place)
        if answer is None:
            raise Unwritable("it ended its process, which has 16 GiB of memory")
        if "reason" in answer:
            raise Unwritable(answer["reason"])
        samples = tuple(OperatorSample(**one) for one in answer.pop("asked"))
        return OperatorProblem(**answer, asked=samples)

    def _asked(self, place: int) -> dict[str, Any] | None:
        """Return what is said of an operator, None where the process ended.

        Raises:
            Unwritable: it was not done in time.
        """
        process = self._process if self._process is not None else self._started()[0]
        late = Event()
        timer = Timer(self._seconds, _end, (process, late))
        timer.start()
        try:
            answer = self._answered(process, place)
        finally:
            timer.cancel()
        if answer is None:
            self.close()
            if late.is_set():
                raise Unwritable(f"it was not done after {self._seconds:g} s")
        return answer

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> tuple[subprocess.Popen[str], list[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "search.aten.examiner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        )
        self._process = process
        names = self._read(process)
        if names is None:
            raise TaskError(
                "torch's OpInfo cannot be read: python -m search.aten.examiner says why"
            )
        return process, names

    def _answered(self, process: subprocess.Popen[str], place: int) -> dict[str, Any] | None:
        assert process.stdin is not None
        try:
            process.stdin.write(f"{place}\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        answer: dict[str, Any] | None = self._read(process)
        return answer

    @staticmethod
    def _read(process: subprocess.Popen[str]) -> Any:
        """Return what the next line says, None where the process ended."""
        assert process.stdout is not None
        line = process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None
