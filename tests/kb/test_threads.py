"""Torch's threads do not keep a core that another program has work for."""

import os

import pytest

from kb.threads import wait_briefly


def test_threads_look_for_one_another_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "3000"


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "KMP_BLOCKTIME"])
def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv(name, "passive")
    wait_briefly()
    assert "GOMP_SPINCOUNT" not in os.environ
