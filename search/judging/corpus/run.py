"""Judges the corpus: one judge a task, one candidate after the other, as a search does."""

from __future__ import annotations

import hashlib
import os
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kb.errors import KbError
from search.judged import (
    Device,
    JudgedMatch,
    JudgedSettings,
    JudgedTarget,
    JudgedTask,
    JudgedTolerances,
)
from search.judging import Judge
from search.judging.corpus.cases import (
    SECRET_VARIABLE,
    Bait,
    Case,
    complaint,
    reference_source,
    twin_of,
)
from search.judging.limits import Limits
from search.judging.local import open_local
from search.outcome import Outcome, Passed
from search.sandbox.zygote import Zygote

_MORE_LOOKS = 2
_TRICKS_OF_TIME = {"work-after-the-clock", "work-outside-the-clock", "library-call"}
UNSEEN = (
    "the machine gave the judge no processor to watch it with: judge it again at a quieter time"
)
# Short of what a search takes: a verdict must not hang on long timing.
_LIMITS = {
    "cpu": Limits(
        build_seconds=4.0,
        call_seconds=2.5,
        timing_seconds=0.1,
        thorough_seconds=0.4,
        compile=False,
        memory=1 << 30,
    ),
    "cuda": Limits(
        build_seconds=90.0,
        start_seconds=10.0,
        call_seconds=3.0,
        timing_seconds=0.3,
        compile=False,
    ),
}
# Rates far above any device's, so that only what is impossible anywhere beats the roofline.
_RATES: dict[str, dict[str, Any]] = {
    "cpu": {
        "vendor": "test",
        "architecture": "x86-64",
        "languages": ("cpp",),
        "units": 2,
        "clock": 5e9,
        "simd_width": 512,
        "flops_per_cycle": {"float32": 64},
        "peak": {"float32": 6.4e11},
        "bandwidth": 4e11,
        "memory": None,
    },
    "cuda": {
        "vendor": "nvidia",
        "architecture": "sm_90",
        "languages": ("triton", "cuda"),
        "units": 132,
        "clock": 2e9,
        "simd_width": 1024,
        "flops_per_cycle": {},
        "peak": {"float32": 1e14, "tf32": 1.2e15, "bf16": 2.5e15, "fp16": 2.5e15},
        "bandwidth": 8e12,
        "memory": 80 << 30,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What became of a case.

    Attributes:
        complaint: what is wrong with that in one line, "" where nothing is.
        outcome: None where the judge itself failed, or there is nothing to compare with.
        detail: of the outcome or of the judge's failure.
    """

    case: Case
    complaint: str
    outcome: Outcome | None
    seconds: float
    detail: str = ""

    @property
    def got(self) -> str:
        """The outcome in a word or two."""
        if self.outcome is None:
            return "not judged"
        if self.outcome.kind == "refused":
            return f"refused {self.outcome.trick}"
        return self.outcome.kind

    def to_json(self) -> dict[str, Any]:
        """Return plain values for programs."""
        reason = str(getattr(self.outcome, "reason", ""))
        return {
            "name": self.case.label,
            "task": " ".join(
                (self.case.reference, *(f"{k}={v}" for k, v in self.case.settings.items()))
            ),
            "expected": self.case.expected,
            "got": self.got,
            "as_expected": not self.complaint,
            "complaint": self.complaint,
            "reason": reason,
            "detail": self.detail,
            "seconds": round(self.seconds, 2),
            **_figures(self.outcome),
        }


def _figures(outcome: Outcome | None) -> dict[str, Any]:
    if not isinstance(outcome, Passed):
        return {}
    return {
        "microseconds": round(outcome.seconds * 1e6, 2),
        "speedup": {name: round(ratio.ratio, 3) for name, ratio in outcome.speedup.items()},
        "own_share": outcome.own_share,
        "error": outcome.max_error,
        "allowed_error": outcome.allowed_error,
    }


def _by_time(case: Case, complaint: str) -> bool:
    """Say whether a complaint may come from times alone: a gain, or a refusal that follows from when something was done."""
    late = bool({*case.tricks} & _TRICKS_OF_TIME) and complaint.startswith(
        "passed, expected refused"
    )
    return late or "honest twin takes" in complaint or "times the speed of eager" in complaint


def _unseen(*outcomes: Outcome | None) -> bool:
    return any(isinstance(one, Passed) and one.unseen for one in outcomes)


def line(verdict: CaseResult) -> str:
    """Return one line of a table: how it went, what it was, what became of it."""
    mark = "FAIL" if verdict.complaint else "ok  "
    text = f"{mark} {verdict.case.label:<44} {verdict.got:<34} {verdict.seconds:5.1f} s"
    return f"{text}  {verdict.complaint}" if verdict.complaint else text


def devices() -> tuple[Device, ...]:
    """Return what this machine can judge on."""
    import torch

    if torch.cuda.is_available() and find_spec("triton") is not None:
        return ("cpu", "cuda")
    return ("cpu",)


@contextmanager
def bait_in_the_environment() -> Iterator[None]:
    """Put a secret where candidates must not find it."""
    before = os.environ.get(SECRET_VARIABLE)
    os.environ[SECRET_VARIABLE] = "hunter2"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SECRET_VARIABLE]
        else:
            os.environ[SECRET_VARIABLE] = before


def open_judge(
    device: Device,
    reference: str,
    settings: Mapping[str, str],
    folder: Path,
    zygote: Zygote | None = None,
    *,
    scarce: bool = False,
) -> Judge:
    """Return a judge for a task of the corpus; prepare it before use.

    Args:
        zygote: the warm process that judges of a processor share, where whoever calls has one.
        scarce: as where a GPU has little memory left.

    Raises:
        KbError: there is no such device, or it cannot judge.
    """
    from search.reference import load_problem

    task = _task(device, reference, settings, folder)
    builds = folder / "judge"
    builds.mkdir(parents=True, exist_ok=True)
    problem = load_problem(task, device=device)
    limits = replace(_LIMITS[device], batch=1) if scarce else _LIMITS[device]
    common: Any = {"folder": builds, "limits": limits, "zygote": zygote}
    return open_local(device, problem, boundless_target(device), **common)


def _task(device: Device, reference: str, settings: Mapping[str, str], folder: Path) -> JudgedTask:
    source = reference_source(device, reference)
    path = folder / f"{reference}.py"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    content = "\0".join((source, *(f"{k}={v}" for k, v in sorted(settings.items()))))
    chosen: dict[str, Any] = {"library": "allowed", "packing": "allowed", **settings}
    precision: Any = chosen.pop("precision", "strict")
    absolute, colon, relative = precision.partition(":")
    if colon:  # tolerances as they are told: "1e-5:1e-4"
        precision = JudgedTolerances(absolute=float(absolute), relative=float(relative))
    special = chosen.pop("special_values", "false") == "true"
    return JudgedTask(
        name=reference,
        reference=path,
        source=source,
        identity=hashlib.sha256(content.encode()).hexdigest()[:16],
        settings=JudgedSettings(precision=precision, special_values=special, **chosen),
    )


def boundless_target(device: Device) -> JudgedTarget:
    """Return a target whose peak rates are far above any device's."""
    nobody = JudgedMatch(
        cpu_vendor=None, cpu_family=None, cpu_models=(), cpu_flags=(), gpu_name=None
    )
    return JudgedTarget(
        name=f"any-{device}",
        device="gpu" if device == "cuda" else device,
        aliases=(),
        match=nobody,
        caches={},
        limits={},
        **_RATES[device],
    )


class CorpusRunner:
    """Judges cases, with one judge at a time: that of the task that was asked for last.

    Args:
        folder: scratch of its own; builds are kept there.
        scarce: judge as where a GPU has little memory left.
    """

    def __init__(self, device: Device, folder: Path, *, scarce: bool = False) -> None:
        self._device, self._scarce = device, scarce
        self._folder = folder
        self._task: tuple[str, tuple[tuple[str, str], ...]] | None = None
        self._judge: Judge | None = None
        self._twins: dict[str, Passed] = {}
        self._zygote = Zygote() if device == "cpu" else None

    def __enter__(self) -> CorpusRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self._zygote is not None:
            self._zygote.close()

    def close(self) -> None:
        """End the judge."""
        if self._judge is not None:
            self._judge.close()
        self._judge, self._task, self._twins = None, None, {}

    def judge(self, case: Case) -> CaseResult:
        """Judge one case; a judge that fails at it is a complaint, and the next case gets a new one.

        One that seems to gain is judged again, its honest twin as well: a busy machine is slow for one of
        two candidates, but not each time for the same.

        Raises:
            KbError: this machine cannot judge the task at all.
        """
        case = case.where_scarce() if self._scarce else case
        verdict = self._hear(case)
        for _ in range(_MORE_LOOKS):
            if "honest twin takes" not in verdict.complaint and verdict.complaint != UNSEEN:
                break
            self._twins.clear()
            verdict = self._hear(case)
        return verdict

    def _hear(self, case: Case) -> CaseResult:
        bait = Bait(self._folder / "bait" / case.name)
        start = time.monotonic()
        try:
            judge = self._seat(case)
            twin = self._twin(case, judge)
            if isinstance(twin, str):
                return CaseResult(case=case, complaint=twin, outcome=None, seconds=0.0)
            start = time.monotonic()
            source = bait.place(case.source)
            outcome = judge.judge(source)
            if isinstance(outcome, Passed) and "passed" not in case.kinds and not outcome.unseen:
                # In a run it would have to be the best, and those are judged for longer.
                outcome = judge.judge(source, thorough=True)
        except KbError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a candidate makes the judge raise is the finding
            self.close()
            said = f"the judge raised {type(error).__name__}: {error}".splitlines()[0]
            return CaseResult(
                case=case,
                complaint=said,
                outcome=None,
                seconds=time.monotonic() - start,
                detail=traceback.format_exc()[-3000:],
            )
        seconds = time.monotonic() - start
        wrong = complaint(case, outcome, seconds=seconds, twin=twin)
        if _by_time(case, wrong) and _unseen(outcome, twin):
            wrong = UNSEEN
        wrong = bait.damage() or wrong
        return CaseResult(
            case=case,
            complaint=wrong,
            outcome=outcome,
            seconds=seconds,
            detail=str(getattr(outcome, "detail", ""))[:1500],
        )

    def _seat(self, case: Case) -> Judge:
        task = case.reference, tuple(sorted(case.settings.items()))
        if self._judge is None or self._task != task:
            self.close()
            with bait_in_the_environment():
                judge = open_judge(
                    self._device, case.reference, case.settings, self._folder, self._zygote,
                    scarce=self._scarce,
                )  # fmt: skip
                self._judge, self._task = judge, task
                judge.prepare()
        assert self._judge is not None
        return self._judge

    def _twin(self, case: Case, judge: Judge) -> Passed | str | None:
        """Return the outcome of the honest twin, or what became of it where it did not pass."""
        twin = twin_of(case, self._device)
        if twin is None:
            return None
        if twin.name not in self._twins:
            outcome = judge.judge(twin.source)
            if not isinstance(outcome, Passed):
                wrong = complaint(twin, outcome, seconds=0)
                return f"it is compared with the honest {twin.name}, which was {wrong}"
            self._twins[twin.name] = outcome
        return self._twins[twin.name]
