"""Runs whose author cheats, and attacks the judge: they end, the cheats are named, nothing is learned from them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from kb.app.device import choose_place
from kb.config import Home
from kb.database import open_engine
from search.attempt import Draft, Idea
from search.graph import Node, Proposal, Slot, Step
from search.judging.corpus.cases import Bait, load_cases, reference_source
from search.lessons.distill import lessons
from search.lessons.evidence import Runs
from search.lessons.setting import Setting
from search.lessons.store import LessonStore
from search.outcome import Passed, Ratio
from search.runs.report import build_report
from search.runs.storage import Storage
from search.task import load_task

pytestmark = [pytest.mark.slow, pytest.mark.timed]

HONEST = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        {slower}
        return self.norm(x)
"""
SLOW = HONEST.format(slower="x = torch.sort(torch.sort(x).values).values.mul(0).add(x)")
# Honest for longer than a first measurement takes (1 s), then an answer that was kept. The last measurement takes 9 s.
LATE = """
import time

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.begin, self.kept = time.monotonic(), None

    def forward(self, x):
        if time.monotonic() < self.begin + 3:
            return self.norm(x)
        if self.kept is None:
            self.kept = self.norm(x)
        return self.kept.clone()
"""
# It passes, and would end the run when its constants are read.
BAD_KNOBS = SLOW + "\nKNOBS = {[1]: [1, 2]}\n"
TOLD_SLOW = SLOW + "\nTILE = 0x40\nKNOBS = {'TILE': [32, 64]}\n"
ATTACKS = (
    "answers_at_an_impossible_address", "doubles_a_constant_line_by_line", "flags_longer_than_a_message",
    "half_a_letter_in_its_source", "large_build", "long_error_message", "long_names_of_parameters",
    "long_type_of_its_answer", "many_parts_to_compile", "sum_of_many_terms", "tells_a_huge_number",
    "tells_lists_in_lists", "words_that_no_terminal_prints",
)  # fmt: skip
CHEATS = ("cached_once_timed", "says_done_too_early", "mutates_input", "zeros", "opens_a_file_of_the_user_to_others",
          "reads_limits_of_its_parent", "forged_answer")  # fmt: skip


def _title(name: str) -> str:
    return f"Approach {name.replace('_', ' ')}"


def _task(folder: Path, sources: dict[str, str]) -> Path:
    """Write a task whose model has one idea for each source, and nothing to mend."""
    category = "memory access"
    ideas = [
        {
            "title": _title(name),
            "category": category,
            "text": f"Do {name} to the rows.",
            "passages": [],
        }
        for name in sources
    ]
    script = [
        *(
            {
                "when": rf"Title: {_title(name)}\n",
                "replies": [f"```python\n{text}\n```"],
            }
            for name, text in sources.items()
        ),
        {"when": r'"ideas"', "replies": [json.dumps({"ideas": ideas})]},
        {"when": ".", "replies": ["There is nothing to mend."]},
    ]
    (folder / "script.json").write_text(json.dumps(script))
    (folder / "norm.py").write_text(reference_source("cpu", "norm"))
    path = folder / "norm.yaml"
    path.write_text(
        json.dumps(
            {
                "reference": "norm.py",
                "model": {"provider": "scripted", "name": str(folder / "script.json")},
                "search": {"rounds": 1, "ideas": len(sources), "branches": 1},
                "stop": {"minutes": None, "candidates": None},
                "final_seconds": 9,
                "compiler": False,
            }
        )
    )
    return path


def _corpus(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    cases = {case.name: case for case in load_cases("cpu", ("cheats",))}
    return {name: Bait(folder / "bait").place(cases[name].source) for name in names}


def _won_before(home: Path, path: Path, source: str) -> None:
    """Record that a cheat won an earlier run of the task before an older judge, and what that taught."""
    storage, task = Storage(open_engine(Home(home))), load_task(path)
    about = {
        "task": task.name, "target": choose_place("auto").target.name, "language": "cpp", "author": "llm",
        "source": task.source, "settings": task.settings.model_dump(mode="json"),
        "path": str(task.path), "reference": str(task.reference),
    }  # fmt: skip
    record = storage.begin("norm", about)
    slot = Slot(0, 0)
    idea = Idea(title="Keep what was found", text="Keep it.", category="memory access")
    record.add_proposal(Proposal(slot=slot, parent=None, ideas=(idea,), retrieved=()))
    draft = Draft(source=source)
    record.add_node(Node(number=0, step=Step(slot, 0, 0), parent=None, idea=idea, draft=draft))
    ratio = Ratio(ratio=40.0, low=39.0, high=41.0)
    outcome = Passed(
        seconds=1e-6, samples=9, speedup={"eager": ratio}, max_error=0.0, allowed_error=1.0
    )
    record.add_outcome(record.graph.nodes[0], outcome, key="an older judge", elapsed=1.0)
    confirmed = {0: outcome}
    baselines = {"run": record.run, **about, "baselines": {"eager": 4e-5}}
    record.finish(build_report(baselines, record.graph, confirmed, stop_reason="done", seconds=1.0))
    setting = Setting(
        run=record.run, task=task.name, identity=task.identity, target=about["target"], architecture="any",
        language="cpp", families=("normalization",), symptoms=("memory-bound",), shapes="48x256 -> 48x256",
        eager_seconds=4e-5, at=date(2026, 1, 1),
    )  # fmt: skip
    book = LessonStore(home, Runs(storage.engine).fault)
    book.learn(lessons(record.graph, confirmed, setting), [], date(2026, 1, 1))
    (won,) = [entry for entry in book.entries() if entry.name.endswith("-won")]
    assert source.strip() in won.words  # the next model would be shown it


@pytest.fixture(scope="module")
def run(make_shell):
    shell = make_shell()
    sources = {
        "honest": SLOW,
        "late": LATE,
        "bad_knobs": BAD_KNOBS,
        "told_slow": TOLD_SLOW,
        **_corpus(shell.folder, CHEATS + ATTACKS),
    }
    task = _task(shell.folder, sources)
    _won_before(shell.home, task, sources[CHEATS[0]])
    done = shell("evolve", task, "--json")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    nodes = json.loads(shell("tree", report["run"], "--json").stdout)["nodes"]
    return shell, report, {node["idea"]: node for node in nodes}


def test_a_run_full_of_attacks_ends_with_its_honest_program(run):
    _, report, nodes = run
    assert report["best"] is not None
    assert report["best"]["node"] != nodes[_title("late")]["node"]
    assert "kept" not in report["best"]["source"]
    assert len(nodes) == 4 + len(CHEATS) + len(ATTACKS)


def test_each_attack_has_an_outcome_of_its_own(run):
    _, _, nodes = run
    cases = {case.name: case for case in load_cases("cpu", ("cheats",))}
    for name in CHEATS + ATTACKS:
        assert nodes[_title(name)]["outcome"] in cases[name].kinds, name


def test_a_cheat_that_was_the_best_is_named(run):
    shell, report, nodes = run
    late = nodes[_title("late")]
    # On a machine so busy that the first measurement took seconds it was caught at once, or was not among the
    # best, which alone are measured again.
    if late["outcome"] == "passed" and "withdrawn" not in report:
        assert report["best"]["node"] != late["node"]
    elif late["outcome"] == "passed":
        (gone,) = report["withdrawn"]
        assert gone["node"] == late["node"]
        assert gone["outcome"] in {"refused", "wrong"}
        assert f"node {late['node']} passed first" in shell("show", report["run"]).stdout
    else:
        assert late["outcome"] in {"refused", "wrong"}


def test_a_cheat_that_won_an_earlier_run_is_refused_and_its_lesson_withdrawn(run):
    shell, report, nodes = run
    cheat = nodes[_title(CHEATS[0])]
    assert cheat["outcome"] == "refused"
    assert report["best"]["node"] != cheat["node"]
    rows = json.loads(shell("lessons", "--all", "--json").stdout)
    (won,) = [row for row in rows if row["name"].endswith("-won")]
    assert won["status"] == "retired"
    (gone,) = (shell.home / "retired").glob("*-won.md")
    assert f"{report['run']} refused the program" in gone.read_text()
    assert not list((shell.home / "lessons").glob("*-won.md"))
    # Distilled again, the earlier run is held against the judge of today.
    told = shell("lessons", "learn", "norm-1")
    assert told.returncode == 0, told.stderr
    assert "before a judge" not in told.stderr  # which has refused it already
    assert not list((shell.home / "lessons").glob("*-won.md"))


def test_nothing_is_learned_from_a_cheat(run):
    shell, report, nodes = run
    rows = json.loads(shell("lessons", "--json").stdout)
    told = json.dumps(rows) + "".join(
        path.read_text() for path in (shell.home / "lessons").rglob("*.md")
    )
    refused = [title for title, node in nodes.items() if node["outcome"] == "refused"]
    assert len(refused) >= 3
    gone = {one["node"] for one in report.get("withdrawn", ()) if one["outcome"] == "refused"}
    refused += [title for title, node in nodes.items() if node["node"] in gone]
    for title in refused:
        assert title.lower() not in told.lower(), title
