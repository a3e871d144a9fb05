"""Compiled Python is kept in the user's cache where it can be nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kb.bytecode import options

PROGRAM = """
import sys
from kb.bytecode import keep_bytecode
keep_bytecode()
import torch
print(torch.__spec__.cached)
"""


def kept(folder: Path, variables: dict[str, str]) -> Path:
    """Import a package called torch, which was never compiled, and return where its bytecode goes."""
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch" / "__init__.py").write_text("")
    path = os.pathsep.join((str(folder), str(Path(__file__).parents[2])))
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": os.defpath, "PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache"), **variables},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return Path(found.stdout.strip())


def test_where_python_must_not_write_it_is_kept_in_the_cache(tmp_path: Path):
    file = kept(tmp_path, {"PYTHONDONTWRITEBYTECODE": "1"})
    assert file.is_relative_to(tmp_path / "cache" / "kb" / "python")
    assert file.exists()


@pytest.mark.parametrize("how", ["it may be written", "it is there", "the user has chosen"])
def test_elsewhere_nothing_changes(tmp_path: Path, how: str):
    variables = {} if how == "it may be written" else {"PYTHONDONTWRITEBYTECODE": "1"}
    if how == "it is there":
        kept(tmp_path, {})
    if how == "the user has chosen":
        variables["PYTHONPYCACHEPREFIX"] = str(tmp_path / "chosen")
    file = kept(tmp_path, variables)
    assert not file.is_relative_to(tmp_path / "cache")
    assert file.exists() == (how != "the user has chosen")


def test_an_isolated_python_keeps_what_this_one_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    command = [sys.executable, "-I", *options(), "-c", "import sys; print(sys.pycache_prefix)"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == str(tmp_path)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert options() == ["-B"]
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert options() == []


def test_what_one_process_kept_beside_its_modules_is_not_all(tmp_path: Path):
    """One that reads no environment may have compiled the first file, and none of the compiler's."""
    late = tmp_path / "torch" / "_inductor"
    late.mkdir(parents=True)
    (late / "compile_fx.py").write_text("")
    assert kept(tmp_path, {}).exists()
    file = kept(tmp_path, {"PYTHONDONTWRITEBYTECODE": "1"})
    assert file.is_relative_to(tmp_path / "cache")


def test_a_cache_that_cannot_be_written_hides_nothing(tmp_path: Path):
    (tmp_path / "cache").write_text("")
    file = kept(tmp_path, {"PYTHONDONTWRITEBYTECODE": "1"})
    assert not file.is_relative_to(tmp_path / "cache")
