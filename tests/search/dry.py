"""What the tests of dry runs share: the corpus of kernels, and tasks made of text."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from search.task import Task, TaskFile

KERNELS = Path(__file__).parent / "judging" / "dryrun" / "kernels"
MARK = "# The answer, a file of its own.\n"


def split(path: Path) -> tuple[str, str]:
    """Return the reference and the answer of a file that holds both."""
    reference, answer = path.read_text().split(MARK)
    return reference, answer


def make_task(folder: Path, source: str, **settings: object) -> Task:
    source = textwrap.dedent(source)
    path = folder / "reference.py"
    path.write_text(source)
    precision = re.match(r"# precision: (\w+)", source)
    given = {"precision": precision[1]} if precision else {}
    chosen = TaskFile.model_validate({"reference": "reference.py", **given, **settings})
    return Task(name="reference", path=path, reference=path, source=source, settings=chosen)
