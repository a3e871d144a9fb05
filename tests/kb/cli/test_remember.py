"""What one run learned, the next one starts from."""

from __future__ import annotations

import json

import pytest
from landscape import SHAPES, WORK, Landscape, Play
from recipe_bench import reference

from kb.app.lessons.learning import today
from kb.config import Home
from kb.records.targets import load_targets
from search.targets.cpu import match_target, read_facts

pytestmark = pytest.mark.timed


class Known(Landscape):
    """Takes every candidate for faster than eager, on whatever machine this is."""

    def speed(self, source: str) -> float:
        return 2 + self._draw(self.note(source))


@pytest.mark.slow
def test_a_run_of_a_neighbouring_shape_starts_from_what_won(make_shell):
    shell = make_shell()
    # The real author and the real record, judged by what is made up: what won is no matter of luck.
    processor = match_target(load_targets(Home(shell.home)), read_facts()).record
    first = Play(processor, today()).run(shell.home, "large", Known(0, "large"), candidates=4)
    run, speeds = first.record.run, first.speeds
    (lesson,) = (shell.home / "lessons").glob("*-won.md")
    assert run in lesson.read_text()

    (shell.folder / "small.py").write_text(reference(WORK, SHAPES["small"]))
    task = {
        "name": "small",
        "reference": "small.py",
        "target": processor.name,
        "final_seconds": 0.2,
        "timing_seconds": 0.2,
        "compiler": False,
    }
    (shell.folder / "small.yaml").write_text(json.dumps(task))
    done = shell("evolve", "small.yaml", "--candidates", "1", "--json")
    assert done.returncode == 0, done.stderr
    second = json.loads(done.stdout)
    best = shell("node", run, speeds.index(max(speeds)), "--json")
    assert best.returncode == 0, best.stderr
    won = json.loads(best.stdout)
    start = json.loads(shell("node", second["run"], 0, "--json").stdout)
    assert "what won on large" in start["idea"]
    assert start["choices"] == won["choices"]
    # The lesson that it started from: what became of it was written there since.
    assert any("lessons" in place or "rewritten since" in place for place in start["passages"])
    assert f"run: {second['run']}" in lesson.read_text()
    listed = json.loads(shell("lessons", "--json").stdout)
    assert {row["status"] for row in listed} == {"active"}
    assert lesson.stem in {row["name"] for row in listed}
    rows = json.loads(shell("ideas", "--json").stdout)
    tried = [row for row in rows if row["tried"]]
    assert sum(row["tried"] for row in tried) == len(speeds) + second["candidates"]
    assert {"large", "small"} <= {task for row in tried for task in row["tasks"]}
    assert any(row["retrieved"] for row in rows)
