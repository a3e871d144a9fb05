from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from kb.config import Home
from kb.database import open_engine
from kb.visible import visible
from search.attempt import Draft, Idea
from search.graph import Node, Proposal, Slot, Step
from search.outcome import Wrong
from search.runs.storage import Storage

TITLE = "a\x1b]0;owned\x07 \x1b[2J\x1b[31mb\ud800\u202e"
ABOUT = {
    "task": "rows", "target": "zen4", "language": "cpp", "author": "llm", "source": "x = 1\n",
    "settings": {"search": {}},
}  # fmt: skip


def test_what_turns_or_hides_a_line_is_shown():
    assert visible("a\u202eb\u2066c") == "a⟦U+202E⟧b⟦U+2066⟧c"
    assert visible("\x1b[31mred\x07") == "␛[31mred␇"
    assert visible("a\ud800b") == "a⟦U+D800⟧b"
    assert visible("tab\tline\nend") == "tab\tline\nend"
    assert visible("Ωµ → ≤ 中文 ü") == "Ωµ → ≤ 中文 ü"


@pytest.fixture
def run(home: Home) -> str:
    """A run whose idea is called as a model may call it."""
    record = Storage(open_engine(home)).begin("rows", ABOUT)
    idea = Idea(title=TITLE, text=TITLE, category="memory")
    slot = Slot(0, 0)
    record.add_proposal(Proposal(slot=slot, parent=None, ideas=(idea,)))
    node = Node(
        number=0, step=Step(slot, 0, 0), parent=None, idea=idea, draft=Draft(source="x = 2\n")
    )
    record.add_node(node)
    record.add_outcome(node, Wrong(reason="it differs"), key="k", elapsed=1.0)
    return record.run


def kb(home: Home, output: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kb.cli", *words],
        env={
            **os.environ,
            "KB_HOME": str(home.root),
            "PYTHONPATH": ":".join(filter(None, sys.path)),
            "TERM": "xterm",
        },
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [("tree",), ("node", "0")])
def test_what_a_model_wrote_steers_no_terminal(home, run, words):
    command, *more = words
    here, there = pty.openpty()
    done = kb(home, there, command, run, *more)
    os.close(there)
    shown = os.read(here, 1 << 16).decode()
    os.close(here)
    assert done.returncode == 0, done.stderr
    assert "␛]0;owned" in shown
    assert "␛[2J" in shown
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert "b⟦U+D800⟧⟦U+202E⟧" in shown


@pytest.mark.slow
@pytest.mark.parametrize("words", [("show",), ("tree",), ("node", "0")])
def test_what_is_no_utf_8_is_printed_and_read_back_from_json(home, run, words):
    command, *more = words
    done = kb(home, subprocess.PIPE, command, run, *more)
    assert done.returncode == 0, done.stderr
    done = kb(home, subprocess.PIPE, command, run, *more, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if command != "show":
        one = told["nodes"][0] if command == "tree" else told
        assert one["idea"] == TITLE
