from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from machines import BUSY_CLOCK as BUSY
from machines import H200_FACTS as H200

from kb.config import shipped_docs
from kb.errors import ConfigError
from kb.records.library import load_library
from kb.records.schema import Document, TargetRecord
from search.targets import cuda
from search.targets.cuda import (
    DeviceFacts,
    Watch,
    clock_state,
    drift,
    read_device,
    visible_gpus,
)
from search.targets.gpus import disagreements, match_gpu


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(load_library(shipped_docs() / "targets"))


def record(documents: list[Document], facts: DeviceFacts) -> TargetRecord:
    found = match_gpu(documents, facts).record
    assert isinstance(found, TargetRecord)
    return found


def test_the_record_of_an_h200_agrees_with_its_driver(documents: list[Document]) -> None:
    assert record(documents, H200).name == "h200"
    assert disagreements(record(documents, H200), H200) == ()
    assert H200.bandwidth == pytest.approx(4.814e12, rel=1e-3)
    assert H200.architecture == "sm_90"
    assert dict(record(documents, H200).limits).items() >= H200.limits.items()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sms": 114}, "SMs: the record h200 says 132, the driver 114"),
        ({"l2": 50 << 20}, "bytes of L2"),
        ({"memory": 80 << 30}, "bytes of memory"),
        ({"clock": 1755e6}, "Hz: the record h200 says 1.98e+09, the driver 1.755e+09"),
        ({"memory_clock": 2619e6}, "bytes/s of memory"),
        ({"shared_per_block": 101376}, "shared memory per block"),
        ({"capability": (10, 0)}, "architecture: the record h200 says sm_90, the driver sm_100"),
    ],
)
def test_each_difference_from_the_driver_is_one_line(
    documents: list[Document], changed: dict[str, object], words: str
) -> None:
    lines = disagreements(record(documents, H200), replace(H200, **changed))  # type: ignore[arg-type]
    assert len(lines) == 1
    assert words in lines[0]


def test_what_the_driver_does_not_tell_is_no_difference(documents: list[Document]) -> None:
    mute = replace(H200, bus_bits=None, memory_clock=None, clock=None)
    assert disagreements(record(documents, H200), mute) == ()


def test_a_card_is_matched_by_name_and_architecture(documents: list[Document]) -> None:
    h100 = replace(H200, name="NVIDIA H100 80GB HBM3")
    assert record(documents, h100).name == "h100"
    with pytest.raises(ConfigError, match="no target record describes 'NVIDIA A10'"):
        match_gpu(documents, replace(H200, name="NVIDIA A10", capability=(8, 6)))
    ada = replace(H200, capability=(8, 9))
    assert record(documents, replace(ada, name="NVIDIA L4")).name == "l4"
    assert record(documents, replace(ada, name="NVIDIA L40S")).name == "l40s"
    with pytest.raises(ConfigError, match="sm_80"):
        match_gpu(documents, replace(H200, capability=(8, 0)))


def test_a_steady_device_has_not_drifted() -> None:
    warm = replace(BUSY, sm_clock=1965e6, temperature=66.0)
    assert drift([BUSY, warm, warm]) is None
    assert drift([]) is None
    assert drift([BUSY]) is None


def test_a_slower_clock_at_the_end_is_said() -> None:
    slow = replace(BUSY, sm_clock=1755e6, at_power_limit=True, reasons=("the power limit",))
    told = drift([BUSY, slow])
    assert told is not None
    assert "1980 to 1755 MHz (-11%) under its power limit" in told


def test_heat_is_said_before_anything_else() -> None:
    hot = replace(BUSY, trouble=True, reasons=("the temperature (hardware)",), sm_clock=1200e6)
    told = drift([BUSY, hot])
    assert told is not None
    assert "slowed down by the temperature (hardware)" in told


def test_another_clock_of_the_memory_is_said() -> None:
    told = drift([BUSY, replace(BUSY, memory_clock=2619e6)])
    assert told is not None
    assert "memory's clock went from 3201 to 2619 MHz" in told


def test_an_idle_sample_counts_for_nothing() -> None:
    idle = replace(BUSY, sm_clock=345e6, reasons=("idle",))
    assert drift([BUSY, idle, BUSY, idle]) is None


def test_an_outcome_keeps_the_lowest_clock_and_the_highest_temperature() -> None:
    watch = Watch(H200.uuid)
    assert watch.figures() == {}
    watch.states += [BUSY, replace(BUSY, temperature=61.0), replace(BUSY, temperature=None)]
    assert watch.figures() == {"sm_clock": 1980e6, "temperature": 61.0}
    watch.states.append(replace(BUSY, sm_clock=1755e6))
    assert watch.figures() == {"sm_clock": 1755e6, "temperature": 61.0, "drifted": 1.0}


def test_without_a_device_there_are_no_facts_and_no_states() -> None:
    if read_device() is not None:
        pytest.skip("an NVIDIA device is here")
    assert clock_state(H200.uuid) is None
    watch = Watch(H200.uuid)
    assert watch.sample() is None
    assert watch.verdict() is None


def test_looking_for_a_device_imports_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys; import search.targets.cuda as c; c.read_device(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.gpu
@pytest.mark.skipif(read_device() is None, reason="needs an NVIDIA device, none is here")
def test_the_driver_says_what_torch_says() -> None:
    import torch

    facts = read_device()
    assert facts is not None
    told = torch.cuda.get_device_properties(0)
    assert facts.name == told.name
    assert facts.sms == told.multi_processor_count
    assert facts.memory == told.total_memory
    assert facts.l2 == told.L2_cache_size
    assert facts.uuid == str(told.uuid)
    assert read_device(index=1000) is None


@pytest.mark.gpu
@pytest.mark.skipif(read_device() is None, reason="needs an NVIDIA device, none is here")
def test_a_sample_does_not_wait_for_the_device_and_sees_it_at_work() -> None:
    import torch

    facts = read_device()
    assert facts is not None
    watch = Watch(facts.uuid)
    a = torch.randn(8192, 8192, device="cuda")
    for _ in range(3):
        for _ in range(200):
            a @ a
        state = watch.sample()
        assert not torch.cuda.current_stream().query()  # the products are not done yet
        assert state is not None
        torch.cuda.synchronize()
    assert "idle" not in watch.states[-1].reasons
    assert watch.states[-1].sm_clock > 1e9


def test_gpus_have_the_names_that_cuda_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare UUID hides every GPU."""
    there = [replace(H200, uuid=name) for name in ("a", "b")]
    monkeypatch.setattr(
        cuda, "read_device", lambda index: there[index] if index < len(there) else None
    )
    monkeypatch.setattr(cuda, "_named_handle", lambda name: name if name == "MIG-b" else None)
    assert visible_gpus() == ["GPU-a", "MIG-b"]


@pytest.mark.gpu
@pytest.mark.skipif(read_device() is None, reason="needs an NVIDIA device")
def test_a_process_sees_only_the_gpu_that_is_reserved_for_it() -> None:
    """In CUDA, not only in a variable: torch counts one GPU, the last of this machine."""
    name = visible_gpus()[-1]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import torch; from search.targets.cuda import visible_gpus; "
            "print(torch.cuda.device_count(), *visible_gpus())",
        ],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": name},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", name]
