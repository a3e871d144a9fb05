"""Torch's threads do not keep a core that another program has work for."""

import os
import subprocess
import sys

import pytest

from kb.threads import wait_briefly


def test_threads_look_for_one_another_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "3000"


def test_commands_say_so_before_torch_is_imported() -> None:
    code = (
        "import atexit, os, sys; atexit.register(lambda: print(os.environ.get('GOMP_SPINCOUNT')))\n"
    )
    code += "sys.argv = ['kb', '--version']; from kb.cli import main; assert 'torch' not in sys.modules; main()"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "3000"


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "KMP_BLOCKTIME"])
def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv(name, "passive")
    wait_briefly()
    assert "GOMP_SPINCOUNT" not in os.environ
