"""What a user can get wrong: each is one line on standard error and exit code 2, nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kb.cli import main

GOOD = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KB_HOME", str(tmp_path / "home"))
    for name in ("KB_MODEL", "KB_BASE_URL", "KB_API_KEY", "OPENAI_API_KEY", "KB_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def kb(monkeypatch, capsys, *arguments: object) -> tuple[int, str]:
    """Run the command line in this process; return its exit code and its last line of complaint."""
    monkeypatch.setattr(sys, "argv", ["kb", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    lines = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in lines if line.startswith("kb: error: ")]
    assert len(errors) == 1, lines
    assert lines[-1] == errors[0]
    return int(ended.value.code or 0), errors[0]


def reference(folder: Path, text: str) -> Path:
    path = folder / "ref.py"
    path.write_text(text)
    return path


BAD_REFERENCES = {
    "a syntax error": (GOOD + "\ndef", "ref.py.*line"),
    "raises on import": (GOOD + "\nraise RuntimeError('boom')", "boom"),
    "no Model": (GOOD.replace("class Model", "class Net"), "class Model"),
    "no get_inputs": (GOOD.replace("def get_inputs", "def inputs"), "get_inputs"),
    "raises in forward": (GOOD.replace("torch.relu(x)", "x @ x"), "forward"),
    "a constructor that wants arguments": (
        GOOD.replace(
            "    def forward",
            "    def __init__(self, n):\n        super().__init__()\n\n    def forward",
        ),
        "Model|constructor",
    ),
    "NaN": (GOOD.replace("torch.relu(x)", "torch.log(-x.abs() - 1)"), "NaN"),
    "empty inputs": (GOOD.replace("8, 16", "0, 16"), "empty"),
    "no tensor": (GOOD.replace("torch.relu(x)", "'hello'"), "str"),
    "a random answer": (GOOD.replace("torch.relu(x)", "x + torch.rand_like(x)"), "random"),
    "double-precision outputs": (GOOD.replace("torch.relu(x)", "x.double()"), "float64"),
    "inputs that are no list": (GOOD.replace("[torch.randn(8, 16)]", "3"), "list of tensors"),
}


def test_the_record_of_answers_is_no_model_that_a_task_may_name(home, monkeypatch, capsys) -> None:
    reference(home.parent, GOOD)
    task = home.parent / "task.yaml"
    task.write_text("reference: ref.py\nmodel: {provider: recorded, name: m}\n")
    code, line = kb(monkeypatch, capsys, "evolve", task)
    assert code == 2
    assert "unknown model 'recorded': known are" in line


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD_REFERENCES)
def test_a_reference_that_cannot_be_judged_is_refused_in_one_line(
    what, home, tmp_path, monkeypatch, capsys
):
    text, found = BAD_REFERENCES[what]
    code, line = kb(monkeypatch, capsys, "evolve", reference(tmp_path, text))
    assert code == 2
    import re

    assert re.search(found, line), line


BAD_SETTINGS = {
    "unknown target": ("target: h900", "h900.*h100"),
    "a processor elsewhere": ("target: arm-neon", "arm-neon.*not this machine"),
    "unknown language": ("language: fortran", "fortran.*cpp"),
    "unknown policy": ("search: {policy: best}", "policy 'best'.*beam"),
    "unknown author": ("author: shakespeare", "shakespeare.*recipes"),
    "a model author with no model": ("author: llm", "KB_MODEL"),
    "unknown provider": ("model: {name: x, provider: acme}", "acme.*openai"),
    "an address that is none": ("model: {name: x, base_url: 'localhost'}", "http://"),
    "an unknown key": ("precison: strict", "precison.*precision"),
    "a folder of prompts that is not there": ("prompts: nowhere", "prompts.*nowhere.*--templates"),
    "broken YAML": ("search: {rounds: 5", "not YAML"),
}


@pytest.mark.parametrize("what", BAD_SETTINGS)
def test_a_setting_that_cannot_be_used_names_what_would_do(
    what, home, tmp_path, monkeypatch, capsys
):
    text, found = BAD_SETTINGS[what]
    reference(tmp_path, GOOD)
    path = tmp_path / "task.yaml"
    path.write_text(f"reference: ref.py\n{text}\n")
    code, line = kb(monkeypatch, capsys, "evolve", path)
    assert code == 2
    import re

    assert re.search(found, line), line


def test_a_language_whose_package_is_missing_names_it(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("kb.app.choices.find_spec", lambda _: None)
    reference(tmp_path, GOOD)
    path = tmp_path / "task.yaml"
    path.write_text("reference: ref.py\ntarget: h200\nlanguage: cute\n")
    code, line = kb(monkeypatch, capsys, "evolve", path)
    assert code == 2
    assert "pip install 'kernel-kb[cute]'" in line


def test_a_task_that_is_not_there(home, tmp_path, monkeypatch, capsys):
    assert kb(monkeypatch, capsys, "evolve", "none.yaml")[0] == 2


@pytest.mark.slow
def test_a_mailbox_that_cannot_be_made_is_said_before_anything_is_timed(
    home, tmp_path, monkeypatch, capsys
):
    path = reference(tmp_path, GOOD)
    (tmp_path / "file").write_text("")
    code, line = kb(monkeypatch, capsys, "evolve", path, "--mailbox", tmp_path / "file")
    assert code == 2
    assert "name a folder that you may write to" in line


def test_a_home_that_cannot_be_made(home, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KB_HOME", str(tmp_path / "file" / "home"))
    code, line = kb(monkeypatch, capsys, "evolve", reference(tmp_path, GOOD))
    assert code == 2
    assert "KB_HOME" in line


def test_a_corrupt_database_is_named_and_kept(home, tmp_path, monkeypatch, capsys):
    home.mkdir()
    damaged = b"this is no database, " * 500
    (home / "kb.sqlite").write_bytes(damaged)
    code, line = kb(monkeypatch, capsys, "runs")
    assert code == 2
    assert "kb.sqlite" in line
    assert (home / "kb.sqlite").read_bytes() == damaged


def test_a_database_address_that_cannot_be_used_does_not_repeat_its_password(
    home, monkeypatch, capsys
):
    home.mkdir()
    (home / "kb.sqlite").touch()
    monkeypatch.setenv("KB_DATABASE", "oracel://scott:tiger@host/db")
    code, line = kb(monkeypatch, capsys, "runs")
    assert code == 2
    assert "tiger" not in line


@pytest.mark.parametrize("command", ["show", "tree", "best", "resume"])
def test_a_run_that_is_not_there_lists_those_that_are(command, home, monkeypatch, capsys):
    code, line = kb(monkeypatch, capsys, command, "conv2d-9")
    assert code == 2
    assert "kb evolve" in line or "there are no runs yet" in line


def test_an_empty_question_and_what_is_unknown(home, monkeypatch, capsys):
    assert kb(monkeypatch, capsys, "search", " ")[0] == 2
    code, line = kb(monkeypatch, capsys, "search", "x", "--language", "fortran")
    assert code == 2
    assert "unknown language 'fortran': known are cpp, cuda" in line
    code, line = kb(monkeypatch, capsys, "search", "x", "--tokenizer", "gone.json")
    assert code == 2
    assert "tokenizer 'gone.json'" in line
    code, line = kb(monkeypatch, capsys, "search", "x", "--kind", "poem")
    assert code == 2
    assert "guide" in line


def test_no_compiler(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, line = kb(monkeypatch, capsys, "evolve", reference(tmp_path, GOOD))
    assert code == 2
    assert "g++" in line


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or shutil.which("unshare") is None, reason="needs unshare"
)
def test_a_full_disk_ends_in_one_line_and_keeps_what_was_there(home, tmp_path):
    """On a real file system of two megabytes."""
    reference(tmp_path, GOOD)
    small = tmp_path / "small"
    small.mkdir()
    script = (
        f"mount -t tmpfs -o size=2m none {small} && mkdir {small}/home && "
        f"dd if=/dev/zero of={small}/fill bs=1k count=2040 2>/dev/null; "
        f"{Path(sys.executable).parent / 'kb'} evolve {tmp_path / 'ref.py'}; echo code $?"
    )
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "KB_HOME": str(small / "home")},
    )
    if "mount" in done.stderr and "code" not in done.stdout:
        pytest.skip("this machine allows no mount in a user namespace")
    assert "code 2" in done.stdout, done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("kb: error")]
    assert len(errors) == 1
    assert "Traceback" not in done.stderr


def test_only_some_checks_without_the_cheats_is_refused(home, monkeypatch, capsys):
    code, line = kb(monkeypatch, capsys, "doctor", "--only", "cheats/zeros")
    assert code == 2
    assert "--only cheats/zeros: expected --cheats" in line
