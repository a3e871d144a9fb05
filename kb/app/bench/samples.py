"""Has an operator's winner answer on the other sample inputs, where it writes kernels of its own for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from kb.app.device import JudgingDevice, choose_place, make_judge, make_zygote
from kb.config import Home, shipped_docs
from kb.errors import NoRecipe, TaskError

if TYPE_CHECKING:
    from search.codegen.library import RecipeCard
    from search.outcome import Outcome
    from search.sandbox.zygote import Zygote
    from search.task import Task

Answered = Literal["own", "library", "wrong"]
# Of timing a kernel, whose time nobody reads. Where a clock that disagrees in so few batches is a refusal, longer.
_SECONDS = (0.05, 1.0)


class AskedSample(BaseModel):
    """A sample as its file has it, see `search.aten.samples`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    program: str
    reason: str
    elements: int
    awkward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleAnswer:
    """Who answered a sample.

    Attributes:
        by: ``own``: a kernel that was judged right; ``wrong``: a kernel that was not; ``library``: no kernel was
            written, so that the operator itself answers.
        reason: why not a kernel that is right.
    """

    sample: str
    by: Answered
    reason: str = ""


def read_samples(path: Path) -> tuple[AskedSample, ...]:
    """Read the samples that `kb.app.bench.aten` wrote.

    Raises:
        TaskError: the file is another.
    """
    from pydantic import ValidationError

    try:
        text = path.read_text(encoding="utf-8")
        return tuple(TypeAdapter(list[AskedSample]).validate_json(text))
    except (OSError, ValidationError) as error:
        first = " ".join(str(error).split())[:200]
        raise TaskError(
            f"{path}: expected samples of an operator: {first}: remove its folder"
        ) from error


def ordered(samples: Sequence[AskedSample], number: int) -> tuple[AskedSample, ...]:
    """Return the samples that a kernel may be written for: awkward ones, some of each size, then the rest.

    Of samples in the order of their elements, every so many come first, so that the first `number` are neither
    only large nor only small ones.
    """
    written = [one for one in samples if one.program]
    awkward = [one for one in written if one.awkward]
    ranked = sorted((one for one in written if not one.awkward), key=lambda one: -one.elements)
    room = max(1, number - len(awkward))
    places = list(dict.fromkeys(at * len(ranked) // room for at in range(room))) if ranked else []
    rest = [at for at in range(len(ranked)) if at not in places]
    return (*awkward, *(ranked[at] for at in (*places, *rest)))


@dataclass(frozen=True, kw_only=True)
class OtherSamples:
    """The samples of one operator, to be answered.

    Attributes:
        plan: of the winner: recipes by part of its graph, empty for a source that no recipe made.
        folder: where kernels are kept.
        kernels: samples that a kernel is written for, at most.
        begins, ends: are told of each sample that a kernel is tried for.
    """

    home: Home
    task: Task
    plan: Mapping[str, Any]
    folder: Path
    kernels: int
    begins: Callable[[str], None]
    ends: Callable[[SampleAnswer], None]

    def answers(self, samples: Sequence[AskedSample]) -> Iterator[SampleAnswer]:
        """Yield who answers each sample, in their order; awkward ones without a kernel are left out.

        Where no kernel can be written for a sample, or it cannot be judged, another one has its turn; twice as many as
        kernels are tried.
        """
        place = choose_place(self.task.settings.target)
        found: dict[str, SampleAnswer] = {}
        cards, zygote = self._cards(), make_zygote(place)
        try:
            for one in ordered(samples, self.kernels)[: 2 * self.kernels if self.plan else 0]:
                if sum(answer.by != "library" for answer in found.values()) == self.kernels:
                    break
                self.begins(one.name)
                found[one.name] = self._answer(one, place, cards, zygote)
                self.ends(found[one.name])
        finally:
            zygote.close()
        for one in samples:
            reason = one.reason or "no kernel was asked for"
            answer = found.get(one.name) or SampleAnswer(
                sample=one.name, by="library", reason=reason
            )
            if not one.awkward or answer.by != "library":  # the operator may refuse it, too
                yield answer

    def _answer(
        self,
        one: AskedSample,
        place: JudgingDevice,
        cards: Mapping[str, RecipeCard],
        zygote: Zygote,
    ) -> SampleAnswer:
        try:
            outcome = self._judged(one, place, cards, zygote)
        except (NoRecipe, TaskError) as error:
            return SampleAnswer(sample=one.name, by="library", reason=str(error))
        if outcome.kind in ("passed", "checked"):
            return SampleAnswer(sample=one.name, by="own")
        told = f"{outcome.kind.replace('_', ' ')}: {getattr(outcome, 'reason', '')}"
        return SampleAnswer(sample=one.name, by="wrong", reason=told)

    def _judged(
        self,
        one: AskedSample,
        place: JudgingDevice,
        cards: Mapping[str, RecipeCard],
        zygote: Zygote,
    ) -> Outcome:
        from search.aten.kernels import write_kernel
        from search.judging.limits import Limits
        from search.reference import load_problem

        slug = one.name.replace(" ", "-")
        task = replace(self.task, name=f"{self.task.name}-{slug}", source=one.program)
        problem = load_problem(task, device=place.device)
        source = write_kernel(problem, place.target, cards, self.plan)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{slug}.py").write_text(source, encoding="utf-8")
        folder = self.home.root / "cache"
        for seconds in _SECONDS:
            limits = Limits(compile=False, timing_seconds=seconds)
            judge = make_judge(place, task, problem, folder=folder, limits=limits, zygote=zygote)
            try:
                judge.prepare()
                outcome = judge.judge(source)
            finally:
                judge.close()
            if outcome.kind != "refused":
                break
        return outcome

    def _cards(self) -> Mapping[str, RecipeCard]:
        from kb.records.library import load_library
        from kb.records.schema import IdeaRecord
        from search.codegen.library import make_cards

        found = load_library(shipped_docs() / "ideas")
        return make_cards(one for one in found if isinstance(one.record, IdeaRecord))
