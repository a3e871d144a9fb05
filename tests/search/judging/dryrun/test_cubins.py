"""Machine code that a candidate's process brings: read as if it had been made to mislead."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from search.judging.dryrun.architecture import Architecture
from search.judging.dryrun.cubins import cute_kernels
from search.sandbox.faults import Fault

NAMES = frozenset({"twice"})
SYMBOL = "kernel_cutlass_twice_tensorptrf32_0"


@pytest.fixture
def sm_90(architectures: dict[str, Architecture]) -> Architecture:
    return architectures["sm_90"]


def launch(**more: object) -> dict[str, object]:
    return {"name": SYMBOL, "threads": 256, "shared": 0, "launches": 1, "file": "a.cubin", **more}


def test_launches_of_cuda_source_and_of_others_kernels_are_passed_over(
    tmp_path: Path, sm_90: Architecture
) -> None:
    theirs = launch(name="kernel_cutlass_gemm_tensorptrf32_0")
    assert cute_kernels([launch(file=""), theirs, "text"], tmp_path, NAMES, sm_90) == ()


@pytest.mark.parametrize(
    "code",
    [
        b"",
        b"#!/bin/sh",
        b"\x7fELF\x02" + bytes(70),
        b"\x7fELF\x02" + struct.pack("<35Q", *range(35)),
    ],
    ids=["nothing", "a script", "zeros", "numbers"],
)
def test_what_is_no_machine_code_is_a_forgery(
    code: bytes, tmp_path: Path, sm_90: Architecture
) -> None:
    (tmp_path / "a.cubin").write_bytes(code)
    with pytest.raises(Fault):
        cute_kernels([launch()], tmp_path, NAMES, sm_90)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, sm_90: Architecture) -> None:
    (tmp_path / "secret").write_bytes(b"\x7fELF\x02")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "a.cubin").symlink_to(tmp_path / "secret")
    with pytest.raises(Fault) as caught:
        cute_kernels([launch()], inner, NAMES, sm_90)
    assert "symbolic" in str(caught.value.outcome).lower()
    with pytest.raises(Fault) as caught:
        cute_kernels([launch(file="../secret")], inner, NAMES, sm_90)
    assert "No such file" in str(caught.value.outcome)


@pytest.mark.parametrize("figures", [{"threads": -1}, {"shared": "1"}, {"launches": True}, {"name": 3}])  # fmt: skip
def test_impossible_figures_are_a_forgery(
    figures: dict[str, object], tmp_path: Path, sm_90: Architecture
) -> None:
    with pytest.raises(Fault):
        cute_kernels([launch(**figures)], tmp_path, NAMES, sm_90)
