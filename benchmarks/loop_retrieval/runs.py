"""Fill a home with finished runs of other tasks, so that the benchmark can be asked there.

    KB_HOME=HOME python -m benchmarks.loop_retrieval.runs 6
    KB_HOME=HOME python -m benchmarks.loop_retrieval.runs 60     # goes on where it stopped

Each run is `kb evolve` with the offline author on one of the tasks that `kb measure` has for
processors, three candidates each, really judged; its lessons and gains stay in the home.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from kb.config import Home
from search.measuring.tables import load_tables

SETTINGS = """\
reference: {reference}
author: recipes
search: {{rounds: 2, ideas: 2, branches: 1}}
stop: {{candidates: 3, minutes: 1.0}}
final_seconds: 1
"""


def main() -> None:
    """Make runs until the home has as many as were asked for."""
    count = int(sys.argv[1])
    home = Home.find().make()
    folder = home.root / "tasks"
    folder.mkdir(exist_ok=True)
    tables = load_tables("cpu").values()
    shapes = list({one.name: one for table in tables for one in table}.values())
    Random(0).shuffle(shapes)
    for number, shape in enumerate(shapes[:count]):
        name = f"{number:02d}-{shape.slug}"
        done = folder / f"{name}.done"
        if done.exists():
            continue
        reference = folder / f"{name}.py"
        reference.write_text(shape.source, encoding="utf-8")
        task = folder / f"{name}.yaml"
        task.write_text(SETTINGS.format(reference=reference.name), encoding="utf-8")
        began = subprocess.run(
            [str(Path(sys.executable).with_name("kb")), "evolve", str(task), "--json"],
            env={**os.environ, "KB_HOME": str(home.root)},
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"{number + 1} {shape.name}: exit {began.returncode}", flush=True)
        done.write_text(began.stdout or began.stderr, encoding="utf-8")


if __name__ == "__main__":
    main()
