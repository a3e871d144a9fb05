"""What a file that claims to be an exported run may hold: every row is checked before it is stored."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, String, Table

from kb.errors import StoreError
from search.attempt import Idea
from search.graph import Step, hash_source
from search.outcome import BuildFailed, Checked, Crashed, Passed, Refused, TimedOut, Wrong
from search.runs.snapshot import GIVEN
from search.runs.tables import DEAD_ENDS, EXCHANGES, NODES, OUTCOMES, PROPOSALS, RUNS, SOURCES
from search.task import stored_settings
from synth.models import Reply

LONGEST_LINE, LARGEST, MOST_ROWS = 16 << 20, 256 << 20, 100_000  # bytes, bytes unpacked, rows
_LARGEST_GIVEN = 32 << 20  # bytes of one thing that a run was given, unpacked
NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,119}", re.ASCII)
_STATUS = {"running", "finished", "interrupted"}
_ABOUT = ("task", "target", "language", "author", "source", "path", "reference")
_LATEST = 1e11  # seconds after 1970 that a calendar can show
_WHOLE = 1 << 62
_MOST = 1e30  # no figure of a run is larger
_QUOTED = 120

_IDEAS = TypeAdapter(tuple[Idea, ...])
_WORDS = TypeAdapter(tuple[str, ...])
_REPLY = TypeAdapter(Reply)
_OUTCOME: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Passed | Checked | Wrong | BuildFailed | Crashed | TimedOut | Refused,
        Field(discriminator="kind"),
    ],
    config=ConfigDict(),
)


def run_name(head: Mapping[str, Any]) -> str:
    """Return the name that a file gives its run, which becomes the name of a folder.

    Raises:
        ValueError: it is none.
    """
    name = head.get("run")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"a run that is named {shortened(repr(name))}")
    return name


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a compressed file, one a line.

    Raises:
        StoreError: it cannot be read, or holds more than any run.
    """
    try:
        if not path.is_file():
            raise ValueError("no file")
        with gzip.open(path, "rb") as file:
            total = rows = 0
            while line := file.readline(LONGEST_LINE + 1):
                total, rows = total + len(line), rows + 1
                if len(line) > LONGEST_LINE or total > LARGEST or rows > MOST_ROWS:
                    raise ValueError(
                        f"more than {LARGEST >> 20} MiB, {LONGEST_LINE >> 20} MiB in a line or {MOST_ROWS} lines"
                    )
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("a line that is no object")
                yield row
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise StoreError(
            f"{path}: expected a run that `kb export` wrote, found what cannot be read ({shortened(error)})"
        ) from error


def shortened(what: object) -> str:
    """Return what is quoted of a file, in one line of a bounded length."""
    return " ".join(str(what)[: 4 * _QUOTED].split())[:_QUOTED]


def check_row(table: Table, row: Any, run: str) -> None:
    """See that a row is one of `run`, that its values are of their kinds, and its hash its content's.

    Raises:
        ValueError: it is not; other exceptions of reading JSON may come as well.
    """
    if not isinstance(row, dict) or not set(row) <= {column.name for column in table.columns}:
        raise ValueError("columns that are none")
    if row.get("run", run) != run:
        raise ValueError("a row of another run")
    for column in table.columns:
        if column.name not in {"run", "number"} or table is not RUNS:
            _check_value(column, row.get(column.name))
    if "number" in row and table is RUNS:
        raise ValueError("a number of a run, which every record counts for itself")
    check = _CHECKS.get(table.name)
    if check is not None:
        check(row)


def _check_value(column: Column[Any], value: Any) -> None:
    if value is None:
        if column.nullable or column.default is not None or column.name == "run":
            return
        raise ValueError(f"no {column.name}")
    kind = column.type
    if isinstance(kind, Boolean):
        fits = isinstance(value, bool)
    elif isinstance(kind, Integer):
        fits = type(value) is int and abs(value) < _WHOLE
    elif isinstance(kind, Float):
        fits = type(value) in {int, float} and math.isfinite(value)
    elif isinstance(kind, LargeBinary | String):
        fits = isinstance(value, str) and len(value) <= (getattr(kind, "length", None) or math.inf)
    else:
        fits = False
    if not fits:
        raise ValueError(f"{column.name} of another kind")


def _check_run(row: dict[str, Any]) -> None:
    about = json.loads(row["about"])
    if not all(isinstance(about[key], str) for key in _ABOUT):
        raise ValueError("nothing about the run")
    stored_settings(about["settings"])
    if row["status"] not in _STATUS or not 0 <= row["started"] < _LATEST:
        raise ValueError("a status or a time that is none")
    report = json.loads(row["report"]) if row.get("report") else {}
    if not isinstance(report, dict):
        raise ValueError("a report that is none")
    _check_figures(report)
    _check_measured(report.get("best") or {})
    if not all(one is None or one > 0 for one in report.get("baselines", {}).values()):
        raise ValueError("a baseline that takes no time")


def _check_figures(value: object) -> None:
    """See that no number is one that nothing is measured as: pages draw them."""
    if isinstance(value, int | float) and not abs(value) < _MOST:
        raise ValueError("a number that nothing is measured as")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _check_figures(part)


def _check_measured(told: Mapping[str, Any]) -> None:
    """See that what passed took time, and was so many times as fast as something."""
    speedups = [told.get("speedup", {}), *told.get("workloads", {}).values()]
    ratios = [one["ratio"] for speedup in speedups for one in speedup.values()]
    if not all(one > 0 for one in (*ratios, told.get("seconds", 1.0))):
        raise ValueError("a program that takes no time")


def _check_node(row: dict[str, Any]) -> None:
    Step.parse(row["step"])
    if row.get("parent") is not None and not 0 <= row["parent"] < row["number"]:
        raise ValueError("a node before its parent")
    draft = json.loads(row["draft"])
    _WORDS.validate_python(draft["passages"])
    _WORDS.validate_python(draft["exchanges"])
    if not isinstance(draft["plan"], dict):
        raise ValueError("a plan that is none")


def _check_proposal(row: dict[str, Any]) -> None:
    _IDEAS.validate_json(row["ideas"])
    _WORDS.validate_json(row["retrieved"])


def _check_dead_end(row: dict[str, Any]) -> None:
    Step.parse(row["step"])


def _check_source(row: dict[str, Any]) -> None:
    if hash_source(row["text"]) != row["hash"]:
        raise ValueError("a source that is not what its hash says")


def _check_exchange(row: dict[str, Any]) -> None:
    asked = json.loads(row["request"])
    # The canonical text, whatever fields the version had that asked.
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != row["key"]:
        raise ValueError("a request that is not what its hash says")
    if not all(isinstance(one["content"], str) for one in asked["messages"]):
        raise ValueError("a request without messages")
    _REPLY.validate_json(row["reply"])


def _check_outcome(row: dict[str, Any]) -> None:
    _OUTCOME.validate_json(row["outcome"])
    told = json.loads(row["outcome"])
    _check_figures(told)
    if told["kind"] == "passed":
        _check_measured(told)


def _check_given(row: dict[str, Any]) -> None:
    unpacking = zlib.decompressobj()
    data = base64.b64decode(row["value"], validate=True)
    text = unpacking.decompress(data, _LARGEST_GIVEN)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError(f"more than {_LARGEST_GIVEN >> 20} MiB that it was given at once")
    json.loads(text)


_CHECKS = {
    RUNS.name: _check_run,
    NODES.name: _check_node,
    PROPOSALS.name: _check_proposal,
    DEAD_ENDS.name: _check_dead_end,
    SOURCES.name: _check_source,
    EXCHANGES.name: _check_exchange,
    OUTCOMES.name: _check_outcome,
    GIVEN.name: _check_given,
}
