"""Languages: what a kernel is written in, and how its native parts are built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kb.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of a candidate that is compiled before it is loaded.

    Attributes:
        key: content hash that names the build.
        line: where in the candidate it is asked for.
        text: name of the file that holds `source`.
        output: name of the file that the compiler makes of it.
        files: what else stands beside it, by name.
    """

    key: str
    source: str
    flags: tuple[str, ...]
    line: int
    text: str = "kernel.cpp"
    output: str = "kernel.so"
    files: Mapping[str, str] = field(default_factory=dict)


class Unbuildable(Exception):
    """The candidate asks for something that cannot be built; the message is for its author."""


MOST_PARTS = 16
_MOST_CALLS = 64


def distinct(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Return the units that differ, in order.

    Raises:
        Unbuildable: there are more than any candidate needs.
    """
    found: dict[str, Unit] = {}
    for number, unit in enumerate(units, 1):
        found.setdefault(unit.key, unit)
        if len(found) > MOST_PARTS or number > _MOST_CALLS:
            raise Unbuildable(
                f"line {unit.line}: it compiles more than {MOST_PARTS} sources: put kernels into fewer"
            )
    return tuple(found.values())


class Language(Protocol):
    """Finds and compiles the native parts of a candidate, without executing it."""

    def units(self, source: str) -> tuple[Unit, ...]:
        """Return the native parts of a candidate.

        Raises:
            Unbuildable: it is not valid Python, or asks for flags that are not allowed.
        """
        ...

    def command(self, unit: Unit, text: str, library: str) -> Sequence[str]:
        """Return the compiler's arguments that turn file `text` into `library`."""
        ...

    def readable(self) -> tuple[str, ...]:
        """Return the folders that the compiler reads beyond the system's and Python's own."""
        ...

    def explain(self, message: str) -> str:
        """Return a compiler's message cut to what an author needs."""
        ...


LANGUAGES: Registry[Language] = Registry(
    "language",
    {
        "cpp": "search.languages.cpp:Cpp",
        "cuda": "search.languages.cuda:Cuda",
        "triton": "search.languages.triton:Triton",
        "cute": "search.languages.cute:Cute",
    },
    extensible=False,  # a judge knows how each is built, walled in and profiled
)
