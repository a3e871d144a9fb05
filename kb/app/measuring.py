"""Puts the parts of `kb measure` together: ideas, tasks, the judge of this machine, records."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from kb.app.device import JudgingDevice, choose_place, make_judge, make_zygote
from kb.config import Home, shipped_docs
from kb.errors import ConfigError
from kb.records.schema import IdeaRecord, TargetRecord

if TYPE_CHECKING:
    from kb.records.schema import Document
    from search.codegen.library import RecipeCard
    from search.judging import Judge
    from search.measuring.choice import Pair, Shops
    from search.measuring.evidence import IdeaRecords
    from search.measuring.session import Measured
    from search.measuring.tables import Shape
    from search.sandbox.zygote import Zygote

_TIMING = {
    "cpu": 1.0,
    "cuda": 0.5,
}  # seconds of timing one candidate: its interval says what that is worth


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What the user asked for, see the options of `kb measure`."""

    ideas: tuple[str, ...] = ()
    shapes: int = 5
    settings: int = 1
    minutes: float | None = None
    target: str = "auto"
    again: bool = False
    shard: str = "1/1"
    write: bool = False
    output: Path | None = None
    dry_run: bool = False


@dataclass(kw_only=True)
class Measuring:
    """One call of the command.

    Attributes:
        chosen: by idea, the tasks that it is measured on.
        waiting: what this call is to measure.
        present: how many of the chosen have evidence already, of this call's share.
        done: what was measured so far.
    """

    asked: MeasureOptions
    home: Home
    place: JudgingDevice
    cards: Mapping[str, RecipeCard]
    shops: Shops
    records: IdeaRecords
    chosen: Mapping[str, list[Pair]]
    waiting: list[Pair] = field(default_factory=list)
    present: int = 0
    done: list[Measured] = field(default_factory=list)
    stopped: bool = False

    @classmethod
    def begin(cls, asked: MeasureOptions) -> Measuring:
        """Choose what is to be measured.

        Raises:
            ConfigError: an option cannot be used.
        """
        from search.codegen.library import make_cards
        from search.measuring.choice import Pair, Shops, choose
        from search.measuring.evidence import IdeaRecords
        from search.measuring.tables import load_tables

        share = _share(asked.shard)
        home, place = Home.find(), _place(asked)
        library = shipped_docs() / "ideas"
        documents = _ideas(library)
        shops = Shops(make_cards(documents.values()), place.target)
        cards = _named(asked.ideas, shops.suiting(), documents, place.target)
        tables = load_tables("gpu" if place.target.device == "gpu" else "cpu")
        chosen = {
            name: [Pair(card=card, shape=s) for s in choose(card, tables, shops, asked.shapes)]
            for name, card in cards.items()
        }
        found = cls(
            asked=asked,
            home=home,
            place=place,
            cards=cards,
            shops=shops,
            records=IdeaRecords(library, _output(asked, home, library)),
            chosen=chosen,
        )
        found._take(*share)
        return found

    @property
    def target(self) -> TargetRecord:
        """The record of the device."""
        return self.place.target

    @property
    def output(self) -> Path:
        """The folder of the records that change."""
        return self.records.output

    def is_present(self, pair: Pair) -> bool:
        """Say whether an idea has evidence of a task from this device."""
        return pair.shape.name in self.records.measured(pair.card.name, self.target.name)

    def _take(self, number: int, shares: int) -> None:
        """Set what this call measures: its share of the tasks, less what has evidence."""
        from search.measuring.choice import by_task

        groups = by_task(pair for pairs in self.chosen.values() for pair in pairs)
        # Tasks that serve many ideas come first: little time still measures much.
        ordered = sorted(groups.values(), key=lambda group: -len(group))
        for group in ordered[number - 1 :: shares]:
            there = [] if self.asked.again else [pair for pair in group if self.is_present(pair)]
            self.present += len(there)
            self.waiting += [pair for pair in group if pair not in there]

    def run(self) -> Iterator[Measured]:
        """Measure what is waiting, and write each measurement into its record at once.

        Raises:
            ConfigError: the device is not here.
        """
        from filelock import FileLock

        from search.measuring.session import MeasureLimits, Measurement

        if self.place.how == "dry":
            raise ConfigError(
                f"{self.target.name} is not here, and nothing is timed without it: run this on a machine that has "
                "one, or list with --dry-run"
            )
        terms = MeasureLimits(settings=self.asked.settings, target=self.target.name, at=_today())
        minutes = self.asked.minutes
        until = None if minutes is None else time.monotonic() + 60 * minutes
        lock = FileLock(self.home.make().root / "measure.lock")
        with ExitStack() as closing:
            bench = _Bench(self.place, self.home, closing)
            session = Measurement(bench, self.shops, terms, time.monotonic, until)
            for one in session.run(self.waiting):
                if one.evidence is not None:
                    with lock:  # another shard may add to the same record
                        self.records.add(one.pair.card.name, one.evidence)
                self.done.append(one)
                yield one
            self.stopped = session.stopped


class _Bench:
    """Starts judges on this machine, all from one warm process."""

    def __init__(self, place: JudgingDevice, home: Home, closing: ExitStack) -> None:
        self._place = place
        self._folder = home.root / "cache"
        self._scratch = Path(closing.enter_context(tempfile.TemporaryDirectory()))
        self._zygote: Zygote = make_zygote(place)
        closing.callback(self._zygote.close)

    @contextmanager
    def open(self, shape: Shape) -> Iterator[Judge]:
        """Start a judge for a task."""
        from search.judging.limits import Limits
        from search.reference import load_problem

        task = shape.task(self._scratch)
        problem = load_problem(task, device=self._place.device)
        judge = make_judge(
            self._place,
            task,
            problem,
            folder=self._folder,
            limits=Limits(timing_seconds=_TIMING[self._place.how]),
            zygote=self._zygote,
        )
        try:
            yield judge
        finally:
            judge.close()
            del judge, problem
            gc.collect()  # the trials are large, and the next task's come at once


def _place(asked: MeasureOptions) -> JudgingDevice:
    """Return where it is measured; what is only listed may be for any device."""
    if asked.dry_run and asked.target != "auto":
        from kb.app.queries import find_target

        return JudgingDevice(target=find_target(asked.target), how="dry")
    return choose_place(asked.target)


def _ideas(library: Path) -> dict[str, Document]:
    from kb.records.library import load_library

    found = load_library(library)
    return {one.name: one for one in found if isinstance(one.record, IdeaRecord)}


def _named(
    names: tuple[str, ...],
    suiting: Mapping[str, RecipeCard],
    documents: Mapping[str, Document],
    target: TargetRecord,
) -> dict[str, RecipeCard]:
    """Return the ideas that the user named, all that suit where none was named.

    Raises:
        ConfigError: one is unknown, has no recipe or does not suit the device.
    """
    import difflib

    for name in names:
        if name not in documents:
            near = difflib.get_close_matches(name, documents, 3) or sorted(suiting)[:3]
            raise ConfigError(f"there is no idea {name!r}: the nearest are {', '.join(near)}")
        record = documents[name].record
        if not isinstance(record, IdeaRecord) or record.recipe is None:
            raise ConfigError(
                f"idea {name} has no recipe, so that nothing can be rendered: kb measure --dry-run lists those that have"
            )
        if name not in suiting:
            raise ConfigError(
                f"idea {name} does not suit {target.name}: its record's scope names another device or language"
            )
    return {name: suiting[name] for name in names} if names else dict(suiting)


def _share(text: str) -> tuple[int, int]:
    """Return which of how many shares ``I/N`` names.

    Raises:
        ConfigError: it names none.
    """
    first, slash, last = text.partition("/")
    if slash and first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last):
        return int(first), int(last)
    raise ConfigError(f"--shard: expected I/N with I from 1 to N, as in 2/4, found {text!r}")


def _output(asked: MeasureOptions, home: Home, library: Path) -> Path:
    """Return the folder of the records that change.

    Raises:
        ConfigError: two folders were asked for.
    """
    if asked.write and asked.output is not None:
        raise ConfigError("--write and --output name two folders: give one of them")
    if asked.write:
        return library
    return asked.output or home.root / "measured"


def _today() -> date:
    from kb.app.lessons.learning import today

    return today()
