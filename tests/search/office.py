"""Both sides of a spool folder, for tests: evaluators here, judges as processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from machines import BOUNDLESS as TARGET
from warm_kb import WARM, WarmProcess

from search.judging.spool.client import Spool
from search.judging.spool.folder import Folder
from search.judging.spool.job import assign
from search.task import Task, TaskFile

FAST = {
    "compile": False,
    "call_seconds": 2.0,
    "timing_seconds": 0.05,
    "thorough_seconds": 0.1,
}
RELU = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 333)]
"""
RIGHT = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clamp(min=0)
"""
WRONG = RIGHT.replace("min=0", "min=0.5")
BROKEN = RIGHT.replace("class ModelNew", "class ModelNew(")
JUDGE = "import sys; from kb.cli import main; sys.argv[0] = 'kb'; main()"


def make_task(folder: Path, source: str = RELU, **settings: object) -> Task:
    source = textwrap.dedent(source)
    path = folder / "reference.py"
    path.write_text(source)
    chosen = TaskFile.model_validate({"reference": "reference.py", **settings})
    return Task(name="reference", path=path, reference=path, source=source, settings=chosen)


class Office:
    """A spool folder with both of its sides: evaluators here, judges as processes of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spool = root / "spool"
        self.folder = Folder(self.spool).make()
        self.said: list[str] = []
        self.running: list[subprocess.Popen[str] | WarmProcess] = []

    def evaluator(self, source: str = RELU, seed: int = 5, **settings: object) -> Spool:
        task = make_task(self.root, source, **settings)
        assignment = replace(assign(task, TARGET), seed=seed, limits=FAST)
        return Spool(self.spool, assignment, say=self.hear)

    def hear(self, line: str) -> None:
        """Note what an evaluator says; a test whose judge is gone must not wait for it."""
        self.said.append(line)
        assert not line.startswith("no judge answers"), [judge.poll() for judge in self.running]

    def judge(
        self, *options: str, env: dict[str, str] | None = None
    ) -> subprocess.Popen[str] | WarmProcess:
        """Start a judge; with an environment of its own it shares no imports with others."""
        command = ["judge", str(self.spool), "--device", "cpu", "--json", "--lease", "3", *options]
        place = {**os.environ, "KB_HOME": str(self.root / "home"), **(env or {})}
        process: subprocess.Popen[str] | WarmProcess
        if env is None and WARM.takes(place):
            process = WARM.start(["kb", *command], cwd=self.root, env=place)
        else:
            process = subprocess.Popen(
                [sys.executable, "-c", JUDGE, *command],
                cwd=self.root,
                env=place,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.running.append(process)
        return process

    def ends(
        self, process: subprocess.Popen[str] | WarmProcess, seconds: float = 120
    ) -> list[dict[str, Any]]:
        """Wait for a judge and return the lines that it printed."""
        output, complaint = process.communicate(timeout=seconds)
        self.said += complaint.splitlines()
        assert "Traceback" not in complaint, complaint
        return [json.loads(line) for line in output.splitlines()]

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.communicate()
