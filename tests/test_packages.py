from __future__ import annotations

import ast
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


def _classes() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for package in ("kb", "ingest", "synth", "search"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, set()).add(str(path.relative_to(ROOT)))
    return found


def test_no_public_class_name_stands_for_two_things():
    assert {name: places for name, places in _classes().items() if len(places) > 1} == {}


def test_no_three_files_of_a_folder_share_a_prefix():
    rows: dict[str, list[str]] = {}
    for package in ("kb", "ingest", "synth", "search"):
        for path in (ROOT / package).rglob("*.py"):
            head, line, _ = path.stem.partition("_")
            if head and line:
                rows.setdefault(f"{path.parent.relative_to(ROOT)}/{head}_", []).append(path.stem)
    assert {head: names for head, names in rows.items() if len(names) > 2} == {}
