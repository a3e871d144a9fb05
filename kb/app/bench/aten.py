"""The suite of torch's own operators: programs that a rule makes of OpInfo, written once a version of torch."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

from kb.app.bench.suites import Suite, SuiteOptions, task_folder
from kb.config import Home
from kb.progress import Progress

_REFUSED = "refused-2.json"  # by the second version of the rule
_SAMPLES = ".samples.json"


def aten(home: Home, options: SuiteOptions, progress: Progress) -> tuple[Suite, dict[str, str]]:
    """Return the suite, and the operators that are no part of it, with reasons.

    The programs are written below the home, where a person may read them, and read from there.
    """
    folder = programs_folder(home)
    programs = [*folder.glob("*.py")]
    whole = all(path.with_name(f"{path.stem}{_SAMPLES}").is_file() for path in programs)
    if not (folder / _REFUSED).is_file() or not whole:
        write_programs(folder, progress)
    suite = task_folder(folder, options)
    suite = replace(
        suite,
        folder=None,
        samples={task.name: folder / f"{task.name}{_SAMPLES}" for task in suite.tasks},
    )
    refused: dict[str, str] = json.loads((folder / _REFUSED).read_text(encoding="utf-8"))
    return suite, refused


def programs_folder(home: Home) -> Path:
    """Return where the programs of the installed torch are."""
    return home.root / "suites" / f"aten-{version('torch').partition('+')[0]}"


def write_programs(folder: Path, progress: Progress) -> None:
    """Apply the rule and write a program an operator; what was refused comes last and says that all is there."""
    from search.aten.selection import select_operators

    progress("reading torch's OpInfo")
    found = select_operators(progress)
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.py"), *folder.glob(f"*{_SAMPLES}")):
        old.unlink()
    for one in found.chosen:
        stem = one.name.replace(".", "_")
        asked = json.dumps([asdict(sample) for sample in one.asked])
        (folder / f"{stem}{_SAMPLES}").write_text(asked + "\n", encoding="utf-8")
        (folder / f"{stem}.py").write_text(one.program, encoding="utf-8")
    text = json.dumps(dict(found.refused), indent=1)
    (folder / _REFUSED).write_text(text + "\n", encoding="utf-8")
