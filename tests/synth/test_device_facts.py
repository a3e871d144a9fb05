import pytest

from kb.records.schema import Cache, TargetRecord
from synth.device_facts import duration, memory_size, quantity, target_lines


@pytest.mark.parametrize(
    ("value", "shown"),
    [(5.3e12, "5.3 TB/s"), (204.8e9, "204.8 GB/s"), (12.0, "12 B/s"), (0.0, "0 B/s")],
)
def test_a_quantity_has_a_decimal_prefix(value: float, shown: str) -> None:
    assert quantity(value, "B/s") == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(49152, "48 KiB"), (33554432, "32 MiB"), (1 << 34, "16 GiB"), (64, "64 B")]
)
def test_a_memory_size_has_a_binary_prefix(size: int, shown: str) -> None:
    assert memory_size(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.5e-5, "45 us"), (3e-8, "30 ns")]
)
def test_a_duration_has_a_unit_that_suits_it(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def target(device: str) -> TargetRecord:
    return TargetRecord(
        kind="target",
        title="A device",
        name="device",
        vendor="acme",
        architecture="a1",
        device=device,
        languages=("cpp",),
        units=8,
        clock=3e9,
        simd_width=256,
        flops_per_cycle={"float32": 32},
        peak={"float32": 768e9},
        bandwidth=48e9,
        memory=1 << 36,
        caches={"l2": Cache(bytes=1 << 20, shared_by="core")},
        limits={"vector_registers": 16},
    )


def test_every_figure_of_a_target_is_told() -> None:
    text = "\n".join(target_lines(target("gpu")))
    for figure in (
        "8 compute units at 3 GHz, 256 lanes",
        "float32 768 GFLOP/s",
        "48 GB/s, 64 GiB",
        "float32 32 FLOP",
        "l2 1 MiB (shared by core)",
        "Balance: 16 FLOP a byte",
        "vector registers 16",
    ):
        assert figure in text


def test_of_a_processor_the_figures_of_the_one_core_that_is_timed_are_told() -> None:
    text = "\n".join(target_lines(target("cpu")))
    assert "8 cores at 3 GHz, 256 bits a vector register; one core is timed" in text
    assert "Peak of one core: float32 96 GFLOP/s" in text
    assert "Memory bandwidth of all cores together: 48 GB/s, 64 GiB of memory" in text
    assert "Balance" not in text
    one = target("cpu").model_copy(update={"units": 1})
    assert target_lines(one)[0].startswith("1 core at 3 GHz")
