"""Devices that several test files describe alike."""

from __future__ import annotations

from kb.records.schema import TargetRecord
from search.targets.cuda import ClockState, DeviceFacts

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

BUSY_CLOCK = ClockState(
    sm_clock=1980e6,
    memory_clock=3201e6,
    temperature=58.0,
    power=480.0,
    reasons=(),
    trouble=False,
    at_power_limit=False,
)
# What the driver of one H200 said.
H200_FACTS = DeviceFacts(
    index=0,
    name="NVIDIA H200",
    uuid="95f84d77-baef-e3ab-6de4-7c587f0fdcc3",
    capability=(9, 0),
    sms=132,
    memory=150109880320,
    l2=62914560,
    shared_per_sm=233472,
    shared_per_block=232448,
    registers_per_sm=65536,
    threads_per_sm=2048,
    blocks_per_sm=32,
    threads_per_block=1024,
    bus_bits=6016,
    clock=1980e6,
    memory_clock=3201e6,
    driver="580.159.04",
    cuda="13.0",
    power_limit=700.0,
    state=BUSY_CLOCK,
)
