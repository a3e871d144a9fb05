"""Devices that several test files describe alike."""

from __future__ import annotations

from kb.records.schema import TargetRecord

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

# Rates far above any machine's, so that only what is impossible anywhere is refused.
BOUNDLESS = TargetRecord(
    kind="target",
    title="A processor for tests",
    name="test-cpu",
    vendor="test",
    architecture="x86-64",
    device="cpu",
    languages=("cpp",),
    units=2,
    clock=5e9,
    simd_width=512,
    flops_per_cycle={"float32": 64},
    peak={"float32": 6.4e11},
    bandwidth=4e11,
)
