"""What is wrong with patterns: records, traits and patterns that they name and nobody has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from kb.config import Home
from kb.records.lint import LintFault
from kb.records.patterns import FOLDER, FOLDERS, Pattern, load_patterns, read_patterns

if TYPE_CHECKING:
    from kb.records.schema import Document


def pattern_faults(root: Path, documents: Sequence[Document]) -> list[LintFault]:
    """Return the findings in the patterns of a library and of the user's home.

    Args:
        documents: records of the library, and those beside it.
    """
    from search.patterns.traits import TRAITS

    records = {
        f"{FOLDERS[one.record.kind]}/{one.name}" for one in documents if one.record.kind in FOLDERS
    }
    folders = dict.fromkeys((root / FOLDER, Home.find().root / FOLDER))
    files = [path for folder in folders for path in sorted(folder.glob("*.yaml"))]
    known = {one.name for one in load_patterns()}
    found: list[LintFault] = []
    for path in files:
        patterns = read_patterns(path)
        names = known | {one.name for one in patterns}
        for pattern in patterns:
            for told in _told(pattern, records, names, set(TRAITS)):
                found.append(
                    LintFault(
                        kind="reference", path=str(path), message=f"pattern {pattern.name}: {told}"
                    )
                )
    return found


def _told(
    pattern: Pattern, records: set[str], patterns: set[str], traits: set[str]
) -> Iterator[str]:
    if not pattern.questions and not pattern.see:
        yield "expected questions or records (see), found neither: it would ask nothing"
    for name in pattern.see:
        if name not in records:
            yield f"see: no record is called {name!r}{_near(name, records)}"
    for name in pattern.instead:
        if name not in patterns:
            yield f"instead: no pattern is called {name!r}{_near(name, patterns)}"
    when = pattern.when
    for condition in (*when.all, *when.any, *when.none):
        subject, _, wanted = (part.strip() for part in condition.partition(":"))
        if subject == "is" and wanted not in traits:
            yield f"when: no trait is called {wanted!r}{_near(wanted, traits)}"


def _near(name: str, known: set[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
