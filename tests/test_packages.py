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


def test_help_imports_nothing_but_the_parser_of_commands():
    script = (
        "import sys; sys.argv = ['kb', '--help']\n"
        "from kb.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "found = {name.partition('.')[0] for name, module in sys.modules.items()\n"
        "         if 'site-packages' in (getattr(module, '__file__', None) or '')}\n"
        "print(*sorted(found), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = set(done.stderr.split())
    assert "typer" in loaded
    assert loaded - {"_distutils_hack"} <= {
        "typer",
        "typing_extensions",
        "shellingham",
        "annotated_doc",
        "click",
    }


def test_no_package_lies_under_tests():
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_the_example_task_states_the_defaults():
    from search.task import TaskFile, load_task

    written = load_task(ROOT / "examples" / "conv2d.yaml").settings
    assert written == TaskFile(reference="conv2d.py")
