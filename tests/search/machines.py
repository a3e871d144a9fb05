"""Devices that several test files describe alike."""

from __future__ import annotations

from kb.records import TargetRecord

TWO_CORES = TargetRecord(
    kind="target",
    title="Two cores",
    name="two-cores",
    vendor="amd",
    architecture="zen4",
    device="cpu",
    languages=("cpp",),
    units=2,
    clock=3e9,
    simd_width=512,
    peak={"float32": 3e11},
    bandwidth=2e10,
)
