"""Parts of another distribution, found by their entry points: each family that CONTRIBUTING calls extensible."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.timed

PARTS = '''
"""Parts of kb by somebody else: they import what is public, and are named in entry points."""

import numpy as np

from ingest.readers import Block, ParsedFile, Section
from search.attempt import Draft, Idea
from synth.models import Reply

ANSWER = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
"""


class Newest:
    def select(self, standings, round, rng):
        return tuple(standings.attempts[-1:])


class OneAnswer:
    """An author that needs no model."""

    def __init__(self, parts):
        self.task = parts.task.name

    def ideas(self, moment, count):
        if moment.history:
            return ()
        return (Idea(title="Somebody else's idea", text="Scale after the clamp.", category="compute and instructions"),)

    def draft(self, moment, idea, branch, siblings):
        return Draft(source=ANSWER) if branch == 0 else None

    def repair(self, moment, failed):
        return None


class Canned:
    name = "canned"

    def __init__(self, name, **settings):
        self.name = name

    def reply(self, request):
        text = "```python" + ANSWER + "```"
        if request.schema is not None:
            text = '{"ideas": [{"title": "Wide loads", "text": "Read sixteen bytes at a time, in vector registers.", "category": "compute and instructions"}]}'
        return Reply(text=text, model=self.name, tokens_in=1, tokens_out=1, seconds=0.0, finish="stop")


class Letters:
    """Counts letters: of no use, but an embedder."""

    name = "letters-1"
    dimension = 26
    pinned = True

    def __init__(self, model, cache):
        pass

    def embed(self, texts, progress=None):
        letters = (np.frombuffer(text.lower().encode(), dtype=np.uint8) for text in texts)
        rows = np.array([np.bincount(row, minlength=256)[97:123] + 1e-3 for row in letters])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Tex:
    def read(self, text, path):
        body = text.replace("\\\\", " ")
        return ParsedFile(kind="document", title=path, body=body,
                          sections=(Section(trail=(path,), blocks=(Block(text=body),)),))
'''
POINTS = """
[kb.policy]
newest = others_parts:Newest
[kb.author]
one-answer = others_parts:OneAnswer
[kb.model]
canned = others_parts:Canned
[kb.embedder]
letters = others_parts:Letters
[kb.reader]
tex = others_parts:Tex
[kb.language]
mojo = others_parts:Mojo
"""
REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0) * 2

def get_inputs():
    return [torch.randn(64, 512)]

def get_init_inputs():
    return []
"""
TASK = {
    "reference": "reference.py",
    "search": {"policy": "newest", "rounds": 1, "ideas": 1, "branches": 1},
    "stop": {"candidates": 2, "minutes": 2},
    "final_seconds": 0.2,
    "timing_seconds": 0.2,
    "compiler": False,
}


def install(shell) -> None:
    """Put the distribution where `kb` finds it, beside the packages that are tested."""
    site = shell.folder / "site"
    installed = site / "others_parts-1.0.dist-info"
    installed.mkdir(parents=True)
    (site / "others_parts.py").write_text(PARTS)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: others-parts\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(POINTS)
    root = Path(importlib.util.find_spec("kb").origin).parent.parent
    shell.env["PYTHONPATH"] = f"{site}:{root}"
    (shell.folder / "reference.py").write_text(REFERENCE)


@pytest.fixture(scope="module")
def shell(make_shell):
    made = make_shell()
    install(made)
    return made


@pytest.mark.slow
def test_a_reader_and_an_embedder_of_another_distribution_are_used(bare_shell) -> None:
    shell = bare_shell
    install(shell)
    shell.env["KB_EMBEDDER"] = "letters"
    (shell.folder / "notes.tex").write_text("\\section{Tiles} Zigzag zones quiz jazz.")
    done = shell("ingest", "notes.tex", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = shell("search", "zigzag jazz quiz", "--json")
    assert found.returncode == 0, found.stderr
    assert "section{Tiles}" in json.dumps(json.loads(found.stdout))


@pytest.mark.slow
def test_a_policy_and_an_author_of_another_distribution_are_used(shell) -> None:
    (shell.folder / "t.yaml").write_text(json.dumps({**TASK, "author": "one-answer"}))
    done = shell("evolve", "t.yaml", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["author"] == "one-answer"
    assert "Somebody else's idea" in shell("tree", json.loads(done.stdout)["run"]).stdout


@pytest.mark.slow
def test_a_model_of_another_distribution_is_asked(shell) -> None:
    task = {**TASK, "author": "llm", "model": {"provider": "canned", "name": "can"}}
    (shell.folder / "t.yaml").write_text(json.dumps(task))
    done = shell("evolve", "t.yaml", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Wide loads" in shell("tree", json.loads(done.stdout)["run"]).stdout


@pytest.mark.slow
def test_an_unknown_name_lists_those_of_other_distributions(shell) -> None:
    (shell.folder / "t.yaml").write_text(json.dumps({**TASK, "search": {"policy": "newst"}}))
    done = shell("evolve", "t.yaml")
    assert done.returncode == 2
    assert "did you mean 'newest'?" in done.stderr


@pytest.mark.slow
def test_a_language_is_no_part_that_others_can_add(shell) -> None:
    (shell.folder / "t.yaml").write_text(json.dumps({**TASK, "language": "mojo"}))
    done = shell("evolve", "t.yaml")
    assert done.returncode == 2
    assert "unknown language 'mojo'" in done.stderr
