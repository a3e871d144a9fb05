"""The lessons of one home: Markdown records, joined, confirmed, contradicted and retired.

The files are the truth and can be read, edited and copied; what retrieval asks is made from them.
A lesson that is believed no more moves from `lessons` to `retired` beside it, where nothing reads it
but `kb lessons`, and keeps its evidence. Every change is one replaced file, and evidence of a run
replaces that of the same run, so that learning a run twice, or after a kill, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Literal

import yaml
from filelock import FileLock

from kb.errors import ConfigError, RecordError, StoreError
from kb.records.schema import Evidence, LessonRecord, Retirement, parse_record
from kb.retrieval.lesson_confidence import effect_of, stance, standing
from search.lessons.distill import Lesson, LessonVerdict
from search.lessons.evidence import Proof
from search.lessons.measurements import bounded, joined, rests_on, same_measurement
from search.lessons.wording import with_evidence, without_evidence

Fate = Literal[
    "new",
    "known",
    "confirmed",
    "contradicted",
    "noted",
    "retired",
    "revived",
    "replaced",
    "refused",
]
# Says which of the texts means the same as the first argument, None where none does.
Alike = Callable[[str, Sequence[str]], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLesson:
    """A lesson as it is kept.

    Attributes:
        words: its body without the list of evidence.
    """

    name: str
    record: LessonRecord
    words: str

    @property
    def retired(self) -> bool:
        """Say whether it is believed no more."""
        return self.record.retired is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonChange:
    """What learning did to a lesson; `why` says more where it was refused or retired."""

    lesson: str
    fate: Fate
    why: str = ""


class LessonStore:
    """The lessons below one folder.

    Args:
        root: the home's folder.
        proof: says what is wrong with a measurement, see `search.lessons.evidence`.
        alike: finds lessons that say the same in other words; None compares structure alone.
    """

    def __init__(self, root: Path, proof: Proof, alike: Alike | None = None) -> None:
        self.active = root / "lessons"
        self.shelf = root / "retired"
        self._lock = root / "lessons.lock"
        self.proof = proof
        self._alike = alike
        self.problems: list[str] = []

    def entries(self) -> list[StoredLesson]:
        """Return every lesson, retired ones last; files that are none are named in `problems`."""
        self.problems = []
        found = [*self._read(self.active), *self._read(self.shelf)]
        return sorted(found, key=lambda one: (one.retired, one.record.number or 0, one.name))

    def find(self, which: str) -> StoredLesson:
        """Return the lesson of a number, a name or the beginning of one.

        Raises:
            ConfigError: there is none, or there are several.
        """
        entries = self.entries()
        if which.isdigit():
            found = [one for one in entries if one.record.number == int(which)]
        else:
            found = [one for one in entries if one.name == which]
            found = found or [one for one in entries if one.name.startswith(which)]
        if len(found) == 1:
            return found[0]
        what = f"{len(found)} lessons" if found else "no lesson"
        names = ", ".join(str(one.record.number or one.name) for one in (found or entries)[:8])
        raise ConfigError(
            f"expected the number or name of one lesson, found {what} for {which!r}: "
            f"{f'known are {names}' if names else 'there are none yet'} (kb lessons lists all)"
        )

    def learn(
        self, lessons: Iterable[Lesson], verdicts: Iterable[LessonVerdict], today: date
    ) -> list[LessonChange]:
        """Add what a run taught: first what became of what it started from, then what is new."""
        changes: list[LessonChange] = []
        with self._locked():
            for verdict in verdicts:
                known = {one.name: one for one in self.entries()}
                entry = known.get(verdict.lesson)
                # What became of it on another device says nothing of the one that it is about.
                if entry is not None and _is_about(entry.record, verdict.evidence.target):
                    changes += self._weigh(entry, verdict.evidence, today)
            for lesson in lessons:
                changes += self._add(lesson, today)
        return changes

    def confirm(self, which: str, evidence: Evidence, today: date) -> list[LessonChange]:
        """Add a measurement that a person names; whether it confirms is for it to say.

        Raises:
            RecordError: it is not in the record of runs, or says otherwise.
        """
        with self._locked():
            changes = self._weigh(self.find(which), evidence, today)
        if changes[0].fate == "refused":
            raise RecordError(
                f"expected a node of a run that bears on {changes[0].lesson}, found one that "
                f"{changes[0].why}: kb tree RUN shows what a run measured"
            )
        return changes

    def retire(self, which: str, because: str, today: date) -> StoredLesson:
        """Take a lesson out of use; only a person can bring it back."""
        if len(because.strip()) < 3:
            raise ConfigError(
                f"expected a reason of at least 3 characters, found {because!r}: say why the lesson "
                "is wrong or of no use"
            )
        with self._locked():
            entry = self.find(which)
            return self._retire(entry, because.strip(), today, by="user")

    def withdraw(
        self, nodes: Collection[tuple[str, int]], because: str, today: date
    ) -> list[LessonChange]:
        """Retire the lessons that rest on what these nodes gained, and on nothing else that counts.

        Args:
            nodes: run and number of programs that a judge has refused since.
        """
        changes = []
        with self._locked():
            for entry in self.entries():
                evidence, effect = entry.record.evidence, effect_of(entry.record)
                kept = [one for one in evidence if not rests_on(one, nodes)]
                if entry.retired or len(kept) == len(evidence):
                    continue
                # What wins this task next is measured against a failure, not against the refused gain.
                failed = [
                    one.model_copy(
                        update={"after": None, "low": None, "high": None, "outcome": "failed"}
                        | {"note": because[:300]}
                    )
                    for one in evidence
                    if stance(effect, one) > 0 and (one.run, one.node) in nodes
                ]
                listed = tuple([*kept, *failed] or evidence)
                record = entry.record.model_copy(update={"evidence": listed})
                fallen = self._write(replace(entry, record=record))
                if not any(stance(effect, one) > 0 and self.proof(one) is None for one in kept):
                    self._retire(fallen, because, today, by="evidence")
                    changes.append(LessonChange(lesson=entry.name, fate="retired", why=because))
        return changes

    def restore(self, which: str) -> StoredLesson:
        """Bring a retired lesson back into use."""
        with self._locked():
            entry = self.find(which)
            record = entry.record.model_copy(update={"retired": None})
            return self._write(replace(entry, record=record))

    def edit(self, which: str, text: str) -> StoredLesson:
        """Replace the words of a lesson; its claim and evidence stay as they were measured.

        Raises:
            ConfigError: the text says nothing.
        """
        words = without_evidence(text).strip()
        if len(words) < 10:
            raise ConfigError(
                f"expected the lesson in words, found {len(words)} characters: to take it out of "
                "use, retire it"
            )
        with self._locked():
            entry = self.find(which)
            update: dict[str, object] = {"edited": True}
            first = words.splitlines()[0]
            if first.startswith("# ") and len(first) > 5:
                update["title"] = first[2:].strip()
            record = entry.record.model_copy(update=update)
            return self._write(replace(entry, record=record, words=words + "\n"))

    def _add(self, lesson: Lesson, today: date) -> list[LessonChange]:
        fault = next((why for one in lesson.record.evidence if (why := self.proof(one))), None)
        if fault is not None:
            return [LessonChange(lesson=lesson.name, fate="refused", why=fault)]
        entry = self._same(lesson)
        if entry is None:
            self._write(StoredLesson(name=lesson.name, record=lesson.record, words=lesson.body))
            return [LessonChange(lesson=lesson.name, fate="new")]
        (evidence,) = lesson.record.evidence
        if _supersedes(lesson.record, entry.record, today):
            kept = {"number": entry.record.number}
            record = lesson.record.model_copy(update=kept)
            self._write(StoredLesson(name=entry.name, record=record, words=lesson.body))
            why = "its plan was contradicted, and another won"
            return [LessonChange(lesson=entry.name, fate="replaced", why=why)]
        if effect_of(entry.record) == effect_of(lesson.record):
            entry = _reworded(entry, lesson)
        changes = self._weigh(entry, evidence, today)
        effect = effect_of(lesson.record)
        fallen = changes[-1].fate == "retired" or (
            entry.record.retired is not None
            and entry.record.retired.by == "evidence"
            and changes[-1].fate != "revived"
        )
        if fallen and effect != effect_of(entry.record):
            support = [one for one in entry.record.evidence if stance(effect, one) > 0]
            listed = tuple(joined(support, evidence))
            record = lesson.record.model_copy(update={"evidence": listed})
            self._write(StoredLesson(name=lesson.name, record=record, words=lesson.body))
            changes.append(LessonChange(lesson=lesson.name, fate="new"))
        return changes

    def _same(self, lesson: Lesson) -> StoredLesson | None:
        """Return the lesson that speaks of the same thing, whatever it says of it."""
        claim = lesson.record.claim
        entries = self.entries()
        for one in entries:
            theirs = one.record.claim
            if one.name == lesson.name or (claim and theirs and theirs.topic == claim.topic):
                return one
        if self._alike is None or claim is None or lesson.record.idea is not None:
            return None  # records have names: two of them are two ideas
        near = [one for one in entries if _comparable(one.record, lesson.record)]
        found = (
            self._alike(_gist(lesson.body), [_gist(one.words) for one in near]) if near else None
        )
        return None if found is None else near[found]

    def _weigh(self, entry: StoredLesson, evidence: Evidence, today: date) -> list[LessonChange]:
        """Add a measurement to a lesson, and retire or revive it where that tips the balance."""
        fault = self.proof(evidence)
        if fault is not None:
            return [LessonChange(lesson=entry.name, fate="refused", why=fault)]
        listed = joined(entry.record.evidence, evidence)
        record = bounded(entry.record, listed)
        side = stance(effect_of(record), evidence)
        fate: Fate = "confirmed" if side > 0 else "contradicted" if side < 0 else "noted"
        if any(same_measurement(one, evidence) for one in entry.record.evidence):
            fate = "known"
        entry = self._write(replace(entry, record=record))
        changes = [LessonChange(lesson=entry.name, fate=fate)]
        now = standing(self._proven(record), today)
        if not entry.retired and now.outweighed:
            because = f"contradicted {now.contradicted} times, confirmed {now.confirmed} times"
            self._retire(entry, because, today, by="evidence")
            changes.append(LessonChange(lesson=entry.name, fate="retired", why=because))
        elif record.retired is not None and record.retired.by == "evidence" and not now.outweighed:
            self._write(replace(entry, record=record.model_copy(update={"retired": None})))
            changes.append(LessonChange(lesson=entry.name, fate="revived"))
        return changes

    def _proven(self, record: LessonRecord) -> LessonRecord:
        """Return a record in which what is not in the record of runs names no run: it counts nothing."""
        named = tuple(
            one if self.proof(one) is None else one.model_copy(update={"run": None})
            for one in record.evidence
        )
        return record.model_copy(update={"evidence": named})

    def _retire(
        self, entry: StoredLesson, because: str, today: date, *, by: Literal["evidence", "user"]
    ) -> StoredLesson:
        retirement = Retirement(because=because, at=today, by=by)
        record = entry.record.model_copy(update={"retired": retirement})
        return self._write(replace(entry, record=record))

    def _write(self, entry: StoredLesson) -> StoredLesson:
        """Write a lesson where it belongs, whole or not at all."""
        record = entry.record
        if record.number is None:
            numbers = [one.record.number or 0 for one in self.entries()]
            record = record.model_copy(update={"number": max(numbers, default=0) + 1})
            entry = replace(entry, record=record)
        values = record.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        front = yaml.safe_dump(
            {"kind": "lesson", **values}, sort_keys=False, allow_unicode=True, width=96
        )
        more = record.earlier.confirmed + record.earlier.contradicted
        text = f"---\n{front}---\n\n{with_evidence(entry.words, record.evidence, more)}"
        here, there = (self.shelf, self.active) if entry.retired else (self.active, self.shelf)
        try:
            here.mkdir(parents=True, exist_ok=True)
            draft = here / f"{entry.name}.tmp"
            draft.write_text(text, encoding="utf-8")
            draft.replace(here / f"{entry.name}.md")
            (there / f"{entry.name}.md").unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{here}: cannot write the lesson ({error.strerror}): make the folder writable or "
                "free some space, then run the command again: nothing is lost"
            ) from error
        return entry

    def _read(self, folder: Path) -> Iterator[StoredLesson]:
        for path in sorted(folder.glob("*.md")):
            try:
                document = parse_record(path.read_text(encoding="utf-8"), path.name)
            except (RecordError, UnicodeDecodeError, OSError) as error:
                self.problems.append(f"{path.name} is no lesson: {error}")
                continue
            if not isinstance(document.record, LessonRecord):
                self.problems.append(f"{path.name} is a {document.record.kind}, no lesson")
                continue
            words = without_evidence(document.body)
            yield StoredLesson(name=document.name, record=document.record, words=words)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self._lock):
            yield


def _is_about(record: LessonRecord, target: str) -> bool:
    return record.claim is None or record.claim.target == target


def _supersedes(new: LessonRecord, old: LessonRecord, today: date) -> bool:
    """Say whether what won a task now takes the place of a winner that is believed no longer.

    Measurements of one plan say nothing of another: they are not joined.
    """
    if effect_of(new) != "wins" or effect_of(old) != "wins" or new.plan == old.plan:
        return False
    by_hand = old.retired is not None and old.retired.by == "user"
    return not by_hand and standing(old, today).expected <= 0


def _comparable(one: LessonRecord, other: LessonRecord) -> bool:
    """Say whether two lessons are about the same place, so that only their words may differ."""
    if one.claim is None or other.claim is None or one.idea is not None:
        return False
    return (
        one.scope == other.scope
        and all(
            getattr(one.claim, name) == getattr(other.claim, name)
            for name in ("basis", "target", "regime", "pattern")
        )
        and "wins" not in (one.claim.effect, other.claim.effect)
    )


def _gist(words: str) -> str:
    """Return what a lesson is about: its headline without its figures, and its last paragraph."""
    headline = words.strip().splitlines()[0].removeprefix("# ").split(":")[0]
    return f"{headline}. {words.strip().rsplit(chr(10), 1)[-1]}"


def _reworded(entry: StoredLesson, lesson: Lesson) -> StoredLesson:
    """Let the clearer measurement of one claim speak: its plan, and its words unless edited."""
    (new,) = lesson.record.evidence
    old = max((one.gain or 0.0 for one in entry.record.evidence if one.run != new.run), default=0)
    if (new.gain or 0.0) <= old:
        return entry
    kept = {name: getattr(entry.record, name) for name in ("number", "evidence", "earlier")}
    kept |= {"retired": entry.record.retired}
    if entry.record.edited:
        kept |= {"title": entry.record.title, "edited": True}
    record = lesson.record.model_copy(update=kept)
    return replace(entry, record=record, words=entry.words if entry.record.edited else lesson.body)
