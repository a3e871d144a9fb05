"""Where the candidates of a run are judged: on this processor, on this GPU, elsewhere, or only compiled."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from kb.config import Home
from kb.errors import ConfigError, TaskError
from kb.progress import say
from kb.records.schema import TargetRecord
from search.comparisons import identity_of
from search.task import FINAL_SECONDS, TIMING_SECONDS

if TYPE_CHECKING:
    from kb.records.schema import Document
    from search.judged import Device
    from search.judging import Judge
    from search.judging.limits import Limits
    from search.reference import Problem
    from search.sandbox.zygote import Zygote
    from search.task import Task

How = Literal["cpu", "cuda", "dry", "elsewhere"]


@dataclass(frozen=True, kw_only=True)
class JudgingDevice:
    """A device and how it is reached."""

    target: TargetRecord
    how: How

    @property
    def device(self) -> Device:
        """Where the reference is loaded, as torch names it."""
        return "cuda" if self.how == "cuda" else "cpu"


def choose_place(name: str, *, elsewhere: bool = False) -> JudgingDevice:
    """Return where candidates for the target `name` are judged.

    Args:
        name: ``auto`` is this machine's GPU where there is one, else its processor.
        elsewhere: candidates are judged on another machine, which checks that it is the target.

    Raises:
        ConfigError: no record describes the device at hand, or none has that name.
        TaskError: the target is another machine's processor.
    """
    from kb.app.queries import find_target

    if name == "auto":
        here = _gpu_here()
        if elsewhere:
            return JudgingDevice(target=here or _processor(), how="elsewhere")
        return (
            JudgingDevice(target=here, how="cuda")
            if here
            else JudgingDevice(target=_processor(), how="cpu")
        )
    record = find_target(name)
    if elsewhere:
        return JudgingDevice(target=record, how="elsewhere")
    if record.device == "gpu":
        here = _gpu_here()
        same = here is not None and here.name == record.name
        return JudgingDevice(target=record, how="cuda" if same else "dry")
    processor = _processor()
    if record.name not in (processor.name, "cpu"):
        raise TaskError(
            f"target {name!r} is not this machine ({processor.name}): kb judges on the device at hand, "
            "use target: auto"
        )
    return JudgingDevice(target=record, how="cpu")


def _documents() -> list[Document]:
    from kb.records.targets import load_targets

    return load_targets(Home.find())


def _processor() -> TargetRecord:
    from search.targets.cpu import match_target, read_facts

    return cast("TargetRecord", match_target(_documents(), read_facts()).record)


def _gpu_here() -> TargetRecord | None:
    """Return the record of this machine's GPU, None where there is none that torch can use."""
    from search.targets.cuda import read_device, torch_trouble
    from search.targets.gpus import disagreements, match_gpu

    facts = read_device()
    if facts is None:
        return None
    trouble = torch_trouble()
    if trouble is not None:
        say(f"{facts.name} is here, but {trouble}: it is not used")
        return None
    record = cast("TargetRecord", match_gpu(_documents(), facts).record)
    for line in disagreements(record, facts):
        say(f"target {record.name}: {line}")
    return record


def make_judge(
    place: JudgingDevice,
    task: Task,
    problem: Problem,
    *,
    folder: Path,
    limits: Limits | None = None,
    zygote: Zygote | None = None,
) -> Judge:
    """Start the judge for `place`.

    Args:
        problem: the task's reference, loaded.
        limits: what a candidate may use, where the task is not to say.
        zygote: see `make_zygote`; judges that follow one another share it.

    Raises:
        ConfigError: judging there needs a package that is missing.
    """
    from search.judging.limits import Limits, limits_of

    limits = limits or Limits(**limits_of(task))
    if task.settings.workloads:
        return _make_workload_judge(place, task, folder=folder, limits=limits)
    if place.how != "cpu" and find_spec("triton") is None:
        raise ConfigError(
            "kernels for GPUs need triton, which is not installed: pip install 'kernel-kb[triton]'"
        )
    if place.how == "dry":
        from search.judging.dryrun.judge import DryJudge

        seed = task.settings.search.seed
        return DryJudge(problem, place.target, seed=seed, folder=folder, zygote=zygote)
    from search.judged import plain_target
    from search.judging.local import open_local

    target = plain_target(place.target)
    return open_local(place.device, problem, target, folder=folder, limits=limits, zygote=zygote)


def _make_workload_judge(
    place: JudgingDevice, task: Task, *, folder: Path, limits: Limits
) -> Judge:
    """Start a judge for each workload of a task, all from one warm process."""
    from search.judging.workloads import WorkloadJudge, WorkloadSeat
    from search.reference import load_problem
    from search.workloads import task_of

    seats, zygote = [], make_zygote(place)
    for workload in task.settings.workloads:
        one = task_of(task, workload)
        problem = load_problem(one, device=place.device)
        judge = make_judge(place, one, problem, folder=folder, limits=limits, zygote=zygote)
        seats.append(WorkloadSeat(workload=workload, judge=judge))
    slower = task.settings.slower_workloads == "allowed"
    return WorkloadJudge(seats, allow_slower=slower, ending=zygote.close)


def make_zygote(place: JudgingDevice) -> Zygote:
    """Return the warm process for several judges of `place`; whoever made it closes it."""
    if place.how == "cuda":
        from search.judging.cuda.worker import make_zygote

        return make_zygote()
    from search.sandbox.fork_server import DRY
    from search.sandbox.zygote import Zygote

    return Zygote(DRY if place.how == "dry" else 0)


def judged_by(place: JudgingDevice, task: Task) -> str:
    """Return what an outcome depends on besides the source: task, device, judge and torch."""
    judge = judge_version(place)
    parts = (task.identity, place.target.name, judge, version("torch"), *unusual(task))
    return "/".join(parts)


def judge_version(place: JudgingDevice) -> str:
    """Return the version of the judge of `place`."""
    if place.how == "dry":
        from search.judging.dryrun.judge import DRY_VERSION

        return DRY_VERSION
    from search.judging.local import local_version

    return local_version(place.device)


def unusual(task: Task) -> tuple[str, ...]:
    """Return what a task changes about how long it is measured, and against what."""
    settings = task.settings
    timing, final = settings.timing_seconds, settings.final_seconds
    return (
        *(() if timing == TIMING_SECONDS else (f"timing {timing:g} s",)),
        *(() if final == FINAL_SECONDS else (f"final {final:g} s",)),
        *identity_of(task),
    )
