"""Two ways to show a view: as a page from its template, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kb.units import compact, long_text, time_text
from kb.visible import visible
from kb.web import highlight, text
from kb.web.links import Links
from kb.web.notes import VERDICTS
from kb.web.prompts import parts
from kb.web.story import Brief
from kb.web.svg.fast_p import fast_p
from kb.web.svg.gains import gains, small_gains
from kb.web.svg.roofline import roofline
from kb.web.svg.samples import samples
from kb.web.svg.sparkline import sparkline
from kb.web.svg.staircase import AXES, staircase
from kb.web.svg.stairs import two_stairs
from kb.web.svg.suite_bars import shares, speedups
from kb.web.svg.tree import draw_tree
from kb.web.trials import Trial
from kb.web.views.ideas import Place, Targets
from kb.web.views.measures import counters_beside
from kb.web.views.node import nearby

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"


@cache
def environment() -> Environment:
    """Return the templates, with what they may call."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,  # a server shows the pages that it began with
    )
    made.filters |= {
        "address": text.address,
        "compact": compact,
        "count": "{:,}".format,
        "indented": lambda value: json.dumps(plain(value), indent=2),
        "moment": text.moment,
        "one_line": text.one_line,
        "parts": parts,
        "duration": long_text,
        "first_value": lambda found: next(iter(found.values())),
        "ratio": text.ratio,
        "shortened": text.shortened,
        "time": time_text,
        "words": lambda kind: kind.replace("_", " "),
        "code": highlight.lines,
        "prose": highlight.prose,
    }
    made.globals |= _functions()
    return made


def _functions() -> dict[str, Any]:
    """Return what the templates may call besides filters: plots, tables and addresses."""
    return {
        "axes": AXES,
        "draw_tree": draw_tree,
        "counters_beside": counters_beside,
        "exp": math.exp,
        "fast_p": fast_p,
        "gains": gains,
        "place_rows": _place_rows,
        "small_gains": small_gains,
        "target_rows": _target_rows,
        "trial_address": _trial_address,
        "two_stairs": two_stairs,
        "verdicts": VERDICTS,
        "nearby": nearby,
        "node_address": _node_address,
        "roofline": roofline,
        "samples": samples,
        "shares": shares,
        "sparkline": sparkline,
        "speedups": speedups,
        "staircase": staircase,
    }


def render(template: str, url: Links, **values: Any) -> str:
    """Return a page.

    Args:
        url: gives addresses of pages as this skin has them.
    """
    return environment().get_template(f"{template}.html.j2").render(url=url, **values)


def as_json(view: object) -> str:
    """Return a view as JSON: its fields by name, whatever it holds."""
    # Escaped, so that lone surrogates pass and no reader takes a character for an end of line.
    return json.dumps(plain(view), ensure_ascii=True, allow_nan=False)


def plain(value: object) -> Any:
    """Return a value as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _node_address(url: Links, run: Brief) -> Callable[[int], str]:
    """Return what gives the address of a run's node, for a drawing."""
    return lambda number: url("runs", run.address, "nodes", number)


def _trial_address(url: Links) -> Callable[[Trial], str]:
    """Return what gives the address of a trial's node, for a drawing."""
    return lambda one: url("runs", one.run.address, "nodes", one.node)


def _place_rows(places: Sequence[Place]) -> list[tuple[str, Sequence[Trial]]]:
    """Return places as rows of a drawing."""
    return [(f"{place.target}: {', '.join(place.families[:2])}", place.trials) for place in places]


def _target_rows(view: Targets) -> list[tuple[str, Sequence[Trial]]]:
    """Return two targets as rows of a drawing."""
    return [
        (name, [t for t in view.trials if t.run.target == name]) for name in (view.one, view.other)
    ]


def _shown(value: object) -> object:
    """Return what a template puts on a page for a value, before it is escaped."""
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    # Nothing is longer than a page can be, whether its template thought of it or not.
    return visible(text.shortened(value)) if isinstance(value, str) else value
