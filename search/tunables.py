"""Constants that an implementation declares as tunable: tried by Optuna, without asking anybody.

A source says ``KNOBS = {"TILE": [32, 64, 128]}`` or ``{"UNROLL": (1, 8)}`` at its top level, and holds
each of these constants once: as a module's assignment of a number, or as ``#define`` or ``constexpr``
in a kernel's text. Another value is another source with that number exchanged, so that it is built,
judged and remembered as any other.
"""

from __future__ import annotations

import ast
import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from search.attempt import Attempt, Draft

if TYPE_CHECKING:
    from kb.records.schema import Knob

Number = int | float
_NAME = "KNOBS"
_MOST_KNOBS = 8
_MOST_VALUES = 64
_LARGEST = 1 << 53  # what a float holds exactly: Optuna counts in floats
_NUMBER = r"[-+]?(?:\d{1,40}(?!\d)\.?\d{0,40}|\.\d{1,40})(?:[eE][-+]?\d{1,9})?"
REACH = 0.8  # of the best merit of a run: what is further behind is not worth tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a constant stands: a span of the source."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """A source with declared constants.

    Attributes:
        values: what each may be.
        sites: where each stands.
        chosen: what each is.
    """

    source: str
    values: Mapping[str, tuple[Number, ...]]
    sites: Mapping[str, Site]
    chosen: Mapping[str, Number]

    def with_values(self, values: Mapping[str, Number]) -> str:
        """Return the source with other values."""
        text = self.source
        for name, site in sorted(self.sites.items(), key=lambda one: -one[1].start):
            text = text[: site.start] + repr(values[name]) + text[site.end :]
        return text

    @property
    def frame(self) -> str:
        """The source without the values: two settings of one program have the same."""
        text = self.source
        for name, site in sorted(self.sites.items(), key=lambda one: -one[1].start):
            text = f"{text[: site.start]}\0{name}\0{text[site.end :]}"
        return text


def read_knobs(source: str) -> Tunable | str | None:
    """Return what a source declares: None where it declares nothing, or why that cannot be used."""
    tree = _tree(source)
    node = next((one for one in tree.body if _names(one) == [_NAME]), None) if tree else None
    if tree is None or not isinstance(node, ast.Assign):
        return None
    try:
        declared = ast.literal_eval(node.value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        declared = None
    if not isinstance(declared, dict) or not 0 < len(declared) <= _MOST_KNOBS:
        return f"{_NAME} is no dictionary of literals for 1 to {_MOST_KNOBS} constants"
    values: dict[str, tuple[Number, ...]] = {}
    sites: dict[str, Site] = {}
    for name, told in declared.items():
        listed = _values(told)
        places = list(_sites(source, tree, str(name)))
        if isinstance(listed, str):
            return f"{_NAME}[{name!r}] {listed}"
        if len(places) != 1:
            return f"constant {name!r} is set {len(places)} times in the source: expected once"
        values[str(name)], sites[str(name)] = listed, places[0]
    try:
        chosen = {name: _number(source[site.start : site.end]) for name, site in sites.items()}
    except ValueError as error:
        return f"{_NAME} names a constant that is no plain number: {str(error)[-80:]}"
    return Tunable(source=source, values=values, sites=sites, chosen=chosen)


def _tree(source: str) -> ast.Module | None:
    """Return the tree of a source that may declare constants; what is no Python cannot have passed."""
    if _NAME not in source:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are the candidate's business
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def knob_trouble(source: str) -> tuple[str, ...]:
    """Return in a sentence why declared constants cannot be tuned, nothing where they can."""
    found = read_knobs(source)
    return (f"Its {_NAME} cannot be tuned: {found}",) if isinstance(found, str) else ()


def promising(nodes: Sequence[Attempt], best_merit: float) -> tuple[Attempt, Tunable] | None:
    """Return the fastest of an idea's implementations, if it declares constants and is worth tuning."""
    passed = [attempt for attempt in nodes if attempt.outcome.kind == "passed"]
    if not passed:
        return None
    base = max(passed, key=lambda attempt: (attempt.merit, -attempt.number))
    if base.merit < REACH * best_merit:
        return None
    found = read_knobs(base.draft.source)
    return (base, found) if isinstance(found, Tunable) else None


def next_setting(base: Tunable, nodes: Sequence[Attempt], seed: int) -> Draft | None:
    """Return a setting of `base` that was not tried, None where all were.

    Args:
        nodes: the judged implementations of the idea, settings of `base` among them.
    """
    from search.codegen.tuner import JudgedSetting, suggestions

    trials = []
    frame = base.frame
    known: set[str] = set()
    for attempt in nodes:
        known.add(attempt.draft.source)
        setting = read_knobs(attempt.draft.source)
        if isinstance(setting, Tunable) and setting.frame == frame:
            cost = attempt.seconds if attempt.outcome.kind == "passed" else None
            within = all(setting.chosen[name] in base.values[name] for name in base.values)
            if within:
                trials.append(JudgedSetting(knobs=dict(setting.chosen), cost=cost))
    for values in suggestions(_spaces(base.values), trials, seed):
        source = base.with_values({name: _plain(values[name]) for name in base.values})
        if source not in known:
            return Draft(source=source)
    return None


def _spaces(values: Mapping[str, tuple[Number, ...]]) -> dict[str, Knob]:
    from kb.records.schema import Choices

    return {name: Choices(choices=listed) for name, listed in values.items()}


def _plain(value: Any) -> Number:
    return value if isinstance(value, int | float) else float(value)


def _names(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else ()
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _values(told: Any) -> tuple[Number, ...] | str:
    """Return the values that a declaration lists: a list as it is, a tuple as a range."""
    if not isinstance(told, list | tuple) or not all(_is_number(one) for one in told):
        return "is neither a list of numbers nor a tuple (from, to[, step])"
    if isinstance(told, list):
        listed = tuple(dict.fromkeys(told))
    else:
        if len(told) not in {2, 3} or not all(isinstance(one, int) for one in told):
            return "is no range of whole numbers (from, to[, step])"
        low, high, step = (*told, 1)[:3]
        if step < 1 or high < low:
            return "is an empty range"
        listed = tuple(range(low, high + 1, step)[: _MOST_VALUES + 1])
    if not 2 <= len(listed) <= _MOST_VALUES:
        return f"has {len(listed)} values: expected 2 to {_MOST_VALUES}"
    return listed


def _is_number(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST
    return whole or (isinstance(value, float) and math.isfinite(value))


def _sites(source: str, tree: ast.Module, name: str) -> Iterator[Site]:
    """Yield the places that set a constant to a number."""
    starts = [0]
    lines = list(io.StringIO(source, newline=""))  # as Python counts lines: a form feed ends none
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        # The parser counts columns in bytes.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node in tree.body:
        if isinstance(node, ast.Assign) and _names(node) == [name]:
            value: ast.expr | None = node.value
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == name
        ):
            value = node.value
        else:
            continue
        if value is not None and (value := _literal(value)) is not None:
            assert value.end_lineno is not None
            assert value.end_col_offset is not None
            yield Site(
                start=place(value.lineno, value.col_offset),
                end=place(value.end_lineno, value.end_col_offset),
            )
    word = re.escape(name)
    pattern = (
        rf"^[ \t]*#[ \t]*define[ \t]+{word}[ \t]+\(?(?P<a>{_NUMBER})\)?[ \t]*(?://.*|/\*(?:(?!\*/).)*\*/[ \t]*)?$"
        rf"|\bconstexpr\b[\w \t:]{{0,200}}?\b{word}[ \t]*=[ \t]*(?P<b>{_NUMBER})[ \t]*;"
    )
    for match in re.finditer(pattern, source, re.MULTILINE):
        group = "a" if match["a"] is not None else "b"
        yield Site(start=match.start(group), end=match.end(group))


def _literal(value: ast.expr) -> ast.expr | None:
    """Return the number that an expression is, also inside ``tl.constexpr(…)``; None where it is none."""
    if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        return _literal(value.args[0])
    try:
        return value if _is_number(ast.literal_eval(value)) else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _number(text: str) -> Number:
    try:
        return int(text)
    except ValueError:
        return float(text)
