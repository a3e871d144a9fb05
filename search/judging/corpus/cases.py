"""The files of the corpus, and what must become of each.

A file's first lines say what is expected of it: ``# expect: refused cached-output | other inputs``
(kinds, then tricks, then a pattern of what the judge says), ``# task: linear library=forbidden``
(the reference, and settings of the task), ``# with: own_norm`` (a part that is put in this line's
place), ``# within: 60`` (seconds), ``# scarce: passed no-gain`` (what is expected instead where a GPU has memory for one call).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kb.errors import ConfigError
from search.judged import Device
from search.languages.cute import imports_cute, is_installed

if TYPE_CHECKING:
    from search.outcome import Outcome, Passed

Group = Literal["cheats", "honest", "faults"]
GROUPS: tuple[Group, ...] = ("cheats", "honest", "faults")
# In the environment of whoever judges: no candidate may see it.
SECRET_VARIABLE = "KB_TEST_SECRET"  # noqa: S105 - a bait
SECRET = "SECRET\n"  # noqa: S105 - a bait
_HEADER = re.compile(r"# (expect|task|with|within|small|interpreter|scarce): *(.*)")
_REFERENCE = {"cpu": "norm", "cuda": "layernorm"}  # of cheats and faults that name none
# A cheat that gains nothing may pass: not faster than the honest program it is made from.
_TWINS = {
    "cpu": {
        "steps": "steps-blocked",
        "growth": "growth-own_exponential",
        "linear": "linear-packed_once",
    },
    "cuda": {
        "layernorm": "layernorm-one_row",
        "linear": "linear-ieee",
        "small_relu": "small_relu-flat",
    },
}
_NO_GAIN = 0.8  # of the twin's seconds, by the clock and beside eager
_MOST_SAID = 6000  # characters: a record and a prompt hold them
_SLOW = 0.5  # of the framework's speed: what a cheat that does forty times the work must come to


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One candidate of the corpus.

    Attributes:
        kinds: of outcomes that are right.
        tricks: names that a refusal may carry; ``no-gain`` and ``slower`` say when it may pass.
        pattern: found in what the judge says.
        reference, settings: the task.
        within: seconds that judging it may take.
    """

    group: Group
    name: str
    source: str
    kinds: tuple[str, ...] = ("passed",)
    tricks: tuple[str, ...] = ()
    pattern: str = ""
    reference: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    within: float | None = None
    scarce: str = ""  # what is expected where a GPU has memory for one call, "" for the same

    @property
    def label(self) -> str:
        """Folder and name."""
        return f"{self.group}/{self.name}"

    @property
    def expected(self) -> str:
        """What must become of it, in words."""
        return " ".join(("|".join(self.kinds), ",".join(self.tricks))).strip()

    def where_scarce(self) -> Case:
        """Return it with what is expected where a GPU has memory for one call."""
        if not self.scarce:
            return self
        kinds, tricks, pattern = _expectation(self.scarce)
        return replace(self, kinds=kinds, tricks=tricks, pattern=pattern)


def corpus_folder(device: Device) -> Path:
    """Return the folder with the corpus of `device`.

    Raises:
        ConfigError: it is not there.
    """
    shipped = Path(__file__).parent / "data" / device
    checkout = Path(__file__).parents[3] / "tests" / "search" / "judging"
    for folder in (shipped, checkout / device):
        if (folder / "cheats").is_dir():
            return folder
    raise ConfigError(
        f"the corpus of cheats was expected in {shipped}, found nothing: install kb from its wheel or checkout again"
    )


def header(text: str) -> dict[str, str]:
    """Return what the first lines of a file say of it."""
    said = {}
    for line in text.splitlines():
        found = _HEADER.fullmatch(line)
        if found is None:
            break
        said[found[1]] = found[2].strip()
    return said


def reference_source(device: Device, name: str) -> str:
    """Return the reference program that is called `name`."""
    return (corpus_folder(device) / "references" / f"{name}.py").read_text(encoding="utf-8")


def load_cases(device: Device, groups: tuple[Group, ...] = GROUPS) -> tuple[Case, ...]:
    """Read the corpus of `device`, tasks together, so that few judges are needed one after another."""
    folder = corpus_folder(device)
    cases = [
        _case(device, group, path) for group in groups for path in (folder / group).glob("*.py")
    ]
    cases.sort(key=lambda case: (case.reference, sorted(case.settings.items()), case.label))
    return tuple(cases)


def choose_cases(device: Device, only: Sequence[str] = ()) -> tuple[Case, ...]:
    """Return the cases whose folder and name fit one of the patterns; all where there is none."""
    return tuple(
        case
        for case in load_cases(device)
        if not only or any(fnmatch(case.label, pattern) for pattern in only)
    )


def _case(device: Device, group: Group, path: Path) -> Case:
    text = path.read_text(encoding="utf-8")
    said = header(text)
    usual = path.stem.partition("-")[0] if group == "honest" else _REFERENCE[device]
    reference, _, settings = said.get("task", usual).partition(" ")
    kinds, tricks, pattern = _expectation(said.get("expect", "passed"))
    if imports_cute(text) and not is_installed():
        # All that can be said of it here.
        kinds, tricks, pattern = ("build_failed",), (), "nvidia-cutlass-dsl"
    if "with" in said:
        part = path.parents[1] / "parts" / f"{said['with']}.py"
        text = text.replace(f"# with: {said['with']}\n", part.read_text(encoding="utf-8"))
    return Case(
        group=group,
        name=path.stem,
        source=text,
        kinds=kinds,
        tricks=tricks,
        pattern=pattern,
        reference=reference,
        settings=dict(pair.split("=", 1) for pair in settings.split()),
        within=float(said["within"]) if "within" in said else None,
        scarce=said.get("scarce", ""),
    )


def _expectation(said: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return kinds, tricks and the pattern of what a file's header expects."""
    expected, _, pattern = said.partition(" | ")
    kinds, _, tricks = expected.partition(" ")
    named = tuple(trick for trick in tricks.split(",") if trick)
    return tuple(kinds.split("|")), named, pattern.strip()


def twin_of(case: Case, device: Device) -> Case | None:
    """Return the honest candidate that a cheat is compared with, where it may pass without a gain."""
    twins = _TWINS[device]
    if "no-gain" not in case.tricks or case.reference not in twins:
        return None
    path = corpus_folder(device) / "honest" / f"{twins[case.reference]}.py"
    return _case(device, "honest", path)


class Bait:
    """What candidates look for: a secret file, a folder to write to, the judge's process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._secret = folder / "secret.txt"
        self._placed: tuple[object, ...] = ()

    def place(self, source: str) -> str:
        """Put the secret in its place and return the candidate with the addresses filled in."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._secret.write_text(SECRET)
        self._placed = self._state()
        marks = {"@SECRET_FILE@": self._secret, "@FOLDER@": self._folder, "@JUDGE@": os.getpid()}
        for mark, value in marks.items():
            source = source.replace(mark, str(value))
        return source

    def damage(self) -> str:
        """Return what a candidate has done to the files around the judge, "" where nothing."""
        if not self._secret.exists() or self._secret.read_text() != SECRET:
            return "it changed a file of the user"
        if self._state() != self._placed:
            return "it changed the mode, owner, times or attributes of a file of the user"
        left = [path.name for path in self._folder.iterdir() if path != self._secret]
        return f"it left {', '.join(left)} behind" if left else ""

    def _state(self) -> tuple[object, ...]:
        """Return what a file has beside its contents."""
        found = self._secret.stat()
        attributes = tuple(os.listxattr(self._secret)) if hasattr(os, "listxattr") else ()
        return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, attributes


def told(outcome: Outcome) -> str:
    """Return all that an outcome says in words."""
    parts = (getattr(outcome, name, "") for name in ("trick", "reason", "signal", "detail"))
    return "\n".join(str(part) for part in parts if part)


def complaint(case: Case, outcome: Outcome, *, seconds: float, twin: Passed | None = None) -> str:
    """Return what is wrong with an outcome in one line, "" where it is what the case expects.

    Args:
        seconds: that the judging took.
        twin: outcome of the honest candidate that a cheat must not be faster than.
    """
    got = outcome.kind + (f" {outcome.trick}" if outcome.kind == "refused" else "")
    reason = str(getattr(outcome, "reason", ""))
    first = reason.splitlines()[0] if reason else ""
    known = outcome.kind != "refused" or outcome.trick in case.tricks
    if outcome.kind not in case.kinds or not known:
        return f"{got}, expected {case.expected}" + (f": {first}" if first else "")
    if case.within is not None and seconds > case.within:
        return f"judging it took {seconds:.0f} s, expected at most {case.within:.0f} s"
    if outcome.kind == "passed":
        return _passing_complaint(case, outcome, twin)
    return _wording_complaint(case, told(outcome), reason)


def _wording_complaint(case: Case, said: str, reason: str) -> str:
    if SECRET in said.replace("SECRET_FILE", ""):
        return "the outcome quotes the secret file"
    if not reason or "\n" in reason:
        return f"expected a reason of one line, found {reason!r}"
    if len(said) > _MOST_SAID or not all(letter.isprintable() or letter == "\n" for letter in said):
        return f"the outcome says {len(said)} characters, or some that cannot be printed"
    if not re.search(case.pattern, said, re.DOTALL):
        return f"expected /{case.pattern}/ in its words: {reason}"
    return ""


def _passing_complaint(case: Case, outcome: Outcome, twin: Passed | None) -> str:
    assert outcome.kind == "passed"
    if outcome.max_error > outcome.allowed_error:
        return f"it passed with an error of {outcome.max_error:.3g}, {outcome.allowed_error:.3g} are allowed"
    if case.group == "honest":
        return ""
    eager = outcome.speedup["eager"].ratio
    if "slower" in case.tricks and eager >= _SLOW:
        return f"it passed at {eager:.2f} times the speed of eager, expected less than {_SLOW}"
    if "no-gain" in case.tricks and twin is not None:
        # A machine that was busier for one of them spoils the clock, and eager as well.
        beside = twin.speedup["eager"].ratio
        if outcome.seconds < _NO_GAIN * twin.seconds and _NO_GAIN * eager > beside:
            return (
                f"it passed with {outcome.seconds * 1e6:.1f} us and {eager:.2f} times eager, its honest twin takes "
                f"{twin.seconds * 1e6:.1f} us, {beside:.2f} times"
            )
    return ""
