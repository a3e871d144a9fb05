"""What a candidate's process tells of its kernels is believed as far as it can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kb.errors import ToolchainError
from search.judging.dryrun import assembler
from search.judging.dryrun.assembler import Assembler, ptxas, triton_folder
from search.outcome import BuildFailed, Refused
from search.sandbox.faults import Fault

TOLD: dict[str, Any] = {
    "name": "k", "file": "k.s", "shared": 0, "warps": 4, "fused": True, "launches": 1
}  # fmt: skip


@pytest.fixture
def made(zygote, tmp_path) -> Assembler:
    return Assembler(zygote, tmp_path / "assembly", 20.0)


@pytest.mark.parametrize(
    "change",
    [
        {"warps": 0},
        {"warps": "4"},
        {"launches": 0},
        {"shared": -1},
        {"shared": 1 << 40},
        {"file": None},
        {"name": 7},
    ],
)
def test_impossible_figures_are_refused(made, architectures, tmp_path, change):
    (tmp_path / "k.s").write_text("")
    with pytest.raises(Fault) as told:
        made.begin(architectures["sm_90"], {**TOLD, **change}, tmp_path)
    assert isinstance(told.value.outcome, Refused)
    assert told.value.outcome.trick == "forged-report"


def test_assembly_is_read_from_the_scratch_folder_alone(made, architectures, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("not for candidates")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "k.s").symlink_to(secret)
    for file in ("k.s", "../secret", str(secret)):
        with pytest.raises(Fault) as told:
            made.begin(architectures["sm_90"], {**TOLD, "file": file}, scratch)
        assert isinstance(told.value.outcome, Refused)


def test_what_is_no_assembly_cannot_be_assembled(made, architectures, tmp_path):
    (tmp_path / "k.s").write_text("nonsense")
    begun = made.begin(architectures["sm_90"], TOLD, tmp_path)
    with pytest.raises(Fault) as told:
        begun.finish()
    assert isinstance(told.value.outcome, BuildFailed)
    assert "kernel k for sm_90 cannot be assembled" in told.value.outcome.reason
    assert not list(Path(tmp_path / "assembly").iterdir())


def test_each_architecture_has_its_assembler(architectures):
    assert ptxas(architectures["sm_90"]).is_file()
    assert ptxas(architectures["sm_120"]).name == "ptxas-blackwell"


def test_another_triton_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(assembler, "_TRITON", "99.1.")
    with pytest.raises(ToolchainError, match=r"needs triton 99.1.x, found 3\.6.*pip install"):
        triton_folder()
