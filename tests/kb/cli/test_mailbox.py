"""`kb evolve` with an author by letters: a real process, and a thread that reads the folder and answers."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timed

CPP = '''import ctypes
import torch
from kb.native import load_cpp

CPP_SOURCE = r"""
extern "C" void relu(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;  // version 0
}
"""
lib = load_cpp(CPP_SOURCE)
lib.relu.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
'''
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 257)]
"""
IDEAS = {
    "ideas": [
        {"title": f"{how} pass", "category": "memory access", "text": f"One {how} pass over it.", "passages": []}
        for how in ("straight", "unrolled")
    ]
}  # fmt: skip


def write_task(folder: Path) -> Path:
    (folder / "ref.py").write_text(REFERENCE)
    task = {
        "reference": "ref.py",
        "author": "mailbox",
        "mailbox": "letters",
        "search": {"rounds": 1, "ideas": 2, "branches": 1},
        "final_seconds": 0.3,
        "timing_seconds": 0.2,
        "compiler": False,
    }
    path = folder / "task.yaml"
    path.write_text(json.dumps(task))
    return path


def until(true, seconds: float = 120):
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() >= end:
            raise TimeoutError("it did not happen")
        time.sleep(0.05)
    return found


class Author(threading.Thread):
    """Reads letters as a person would: the file's words, not the note for programs."""

    def __init__(self, folder: Path, *, sources: bool = True) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.sources = sources
        self.done = threading.Event()
        self.read: list[str] = []
        self.most = 0

    def letters(self) -> list[Path]:
        files = sorted(self.folder.glob("*/[0-9]*-*.md"))
        return [one for one in files if re.fullmatch(r"\d+-\w+-[0-9a-f]{12}", one.stem)]

    def run(self) -> None:
        while not self.done.wait(0.05):
            open_ones = [one for one in self.letters() if one.stem not in self.read]
            self.most = max(self.most, len(open_ones))
            for letter in reversed(open_ones):  # the newest first
                self.answer(letter)

    def answer(self, letter: Path) -> None:
        text = letter.read_text()
        if '"ideas"' in text:
            reply = f"These two.\n\n```json\n{json.dumps(IDEAS)}\n```\n"
        elif not self.sources:
            return
        elif "One unrolled pass" in text.split("Implement this idea")[-1] and len(self.read) < 3:
            reply = f"```python\n{CPP.replace('long i = 0', 'long i = 0 oops')}```"
        else:
            # The mended one is slow, so that only one is measured again.
            slow = "for (long k = 0; k < 90; ++k) " if "oops" in text else ""
            source = CPP.replace("version 0", letter.stem).replace(
                "for (long i", f"{slow}for (long i"
            )
            reply = f"Here.\n\n```python\n{source}```\n"
        self.read.append(letter.stem)
        draft = letter.with_suffix(".draft")
        draft.write_text(reply)
        draft.rename(letter.with_suffix(".reply.md"))


@pytest.mark.slow
def test_a_prompt_is_shown_with_the_room_that_its_letter_has(make_shell):
    shell = make_shell()
    done = shell("prompt", write_task(shell.folder), "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["model"] == str(shell.folder / "letters")
    assert shown["budget"] > 30_000
    assert "no model is configured" not in done.stderr


@pytest.mark.slow
def test_a_run_waits_for_letters_is_interrupted_and_ends_with_answers_that_came_meanwhile(
    make_shell,
):
    shell = make_shell()
    task = write_task(shell.folder)
    folder = shell.folder / "letters"
    process = shell.start("evolve", task, "--json")
    author = Author(folder, sources=False)
    author.start()
    until(lambda: len([one for one in author.letters() if "-source-" in one.stem]) == 2)
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert "kb resume ref-1" in complaint
    assert "waiting for answers to" in complaint
    assert "Traceback" not in complaint
    before = author.letters()

    author.sources = True  # both are answered while nobody waits
    until(lambda: all(one.with_suffix(".reply.md").exists() for one in before))
    done = shell("resume", "ref-1", "--json")
    author.done.set()
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["author"] == "mailbox"
    assert report["outcomes"]["build_failed"] == 1
    assert report["outcomes"]["passed"] >= 2  # the straight one, and the mended one
    letters = author.letters()
    assert letters[:3] == before
    assert len(letters) == 4, "ideas, two sources, one repair: nothing was asked twice"
    node = json.loads(shell("node", "ref-1", report["best"]["node"], "--json").stdout)
    assert node["prompts"][-1]["reply"]["model"] == "mailbox"
