from dataclasses import replace
from pathlib import Path

from play import open_storage

from search.attempt import Draft, Idea
from search.graph import Node, Proposal, Slot, Step
from search.outcome import Passed, Ratio, Wrong
from search.runs.earlier import earlier_ideas
from search.task import Task, TaskFile

TASK = Task(
    name="t",
    path=Path("t.yaml"),
    reference=Path("r.py"),
    source="class Model: ...",
    settings=TaskFile(reference="r.py"),
)


def ran(storage, source: str, *found) -> str:
    about = {"source": source, "settings": TASK.settings.model_dump(mode="json")}
    record = storage.begin("t", about)
    ideas = tuple(Idea(title=title, text=title, category="c") for title, _ in found)
    slot = Slot(0, 0)
    record.add_proposal(Proposal(slot=slot, parent=None, ideas=ideas))
    for number, (title, outcome) in enumerate(found):
        draft = Draft(source=f"{record.run} {title}")
        step = Step(slot, number, 0)
        node = Node(number=number, step=step, parent=None, idea=ideas[number], draft=draft)
        record.add_node(node)
        record.add_outcome(node, outcome, key=f"{record.run}{number}", elapsed=0.0)
    return record.run


def passed(gain: float, half: float = 0.0) -> Passed:
    return Passed(
        seconds=1e-3 / gain,
        samples=9,
        speedup={"eager": Ratio(ratio=gain, low=gain * (1 - half), high=gain * (1 + half))},
        max_error=0.0,
        allowed_error=1.0,
    )


def test_ideas_that_lost_or_failed_in_earlier_runs_of_the_task_are_known(tmp_path) -> None:
    storage = open_storage(tmp_path)
    first = ran(
        storage,
        TASK.source,
        ("fuse", passed(1.5)),
        ("pad", passed(0.7)),
        ("skew", passed(0.97, half=0.05)),
        ("tile", Wrong(reason="off")),
    )
    ran(storage, "another task", ("other", Wrong(reason="off")))
    later = storage.runs()[-1].started + 1
    told = {one.title: one.told for one in earlier_ideas(storage, TASK, later)}
    assert told == {
        "pad": f"reached 0.70x over eager (in {first})",
        "tile": f"wrong: off (in {first})",
    }
    assert earlier_ideas(storage, TASK, storage.runs()[0].started) == ()


def test_what_failed_once_and_won_later_is_not_refused(tmp_path) -> None:
    storage = open_storage(tmp_path)
    ran(storage, TASK.source, ("tile", Wrong(reason="off")))
    ran(storage, TASK.source, ("tile", passed(2.0)))
    assert earlier_ideas(storage, replace(TASK), storage.runs()[-1].started + 1) == ()
