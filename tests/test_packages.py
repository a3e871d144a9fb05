from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["kb", "ingest", "synth", "search"])
def test_each_package_resolves_into_this_checkout(name):
    assert Path(importlib.import_module(name).__file__).is_relative_to(ROOT)


def test_help_imports_nothing_heavy():
    code = "import sys, kb.cli.commands; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "torch",
        "numpy",
        "chromadb",
        "sqlalchemy",
        "pydantic",
        "onnxruntime",
        "openai",
        "yaml",
    }
    assert not heavy & set(done.stdout.split())


def test_no_package_lies_under_tests():
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_the_example_task_states_the_defaults():
    from search.task import TaskFile, load_task

    written = load_task(ROOT / "examples" / "conv2d.yaml").settings
    assert written == TaskFile(reference="conv2d.py")
