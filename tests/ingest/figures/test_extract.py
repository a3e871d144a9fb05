from __future__ import annotations

from pathlib import Path

import pytest

from ingest.figures.extract import Devices, Proposal, proposals, tables
from ingest.figures.units import read_quantity, unit_of, without_unit
from kb.config import Home
from kb.records.schema import TargetRecord
from kb.records.targets import base_targets
from kb.records.types import Passage


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Devices:
    documents = base_targets(Home(tmp_path_factory.mktemp("home")))
    return Devices([one.record for one in documents if isinstance(one.record, TargetRecord)])


def read(text: str, devices: Devices, section: str = "Manual > Table") -> list[Proposal]:
    passage = Passage(
        id="p",
        document="m.pdf",
        section=section,
        kind="document",
        text=text,
        tokens=1,
        pages=(7, 7),
    )
    return list(proposals(passage, devices))


def told(text: str, devices: Devices, section: str = "Manual") -> set[tuple[str, str, float]]:
    return {(one.target, one.field, one.value) for one in read(text, devices, section)}


@pytest.mark.parametrize(
    ("cell", "dimension", "unit", "binary", "value"),
    [
        ("3.35TB/s", "bandwidth", "", False, 3.35e12),
        ("1,008 GB/s", "bandwidth", "", False, 1.008e12),
        ("5300", "bandwidth", "GB/s", False, 5.3e12),
        ("80GB", "bytes", "", False, 80e9),
        ("80 GB HBM3", "bytes", "", False, 80e9),
        ("50 MB", "bytes", "", True, 50 * 2**20),
        ("64 KiB", "bytes", "", False, 65536),
        ("989.4 TFLOPS", "flops", "", False, 989.4e12),
        ("1,979 teraFLOPS", "flops", "", False, 1979e12),
        ("20 petaFLOPS", "flops", "", False, 20e15),
        ("1980 MHz", "clock", "", False, 1.98e9),
        ("64 K", "count", "", False, 65536),
        ("132", "count", "", False, 132),
        ("273 cycles", "cycles", "", False, 273),
        ("2 / 3 TB/s", "bandwidth", "", False, None),
        ("1.0-1.2 GHz", "clock", "", False, None),
        ("HBM3", "bytes", "", False, None),
        ("about", "count", "", False, None),
        ("80 watts", "bytes", "", False, None),
        ("3.35", "bandwidth", "", False, None),
    ],
)
def test_a_cell_is_read_in_si_units_or_not_at_all(
    cell: str, dimension: str, unit: str, binary: bool, value: float | None
) -> None:
    found = read_quantity(cell, dimension, unit, binary=binary)
    assert (None if found is None else found.value) == pytest.approx(value)


def test_a_label_gives_its_unit() -> None:
    assert unit_of("Memory bandwidth (GB/s)") == "GB/s"
    assert without_unit("Memory bandwidth (GB/s)") == "Memory bandwidth"
    assert without_unit("Registers (32-bit)*") == "Registers (32-bit)"


def test_a_device_a_column(devices: Devices) -> None:
    found = told(
        "| | H100 SXM | H100 PCIe | RTX 4090 |\n| --- | --- | --- | --- |\n"
        "| Memory bandwidth | 3.35TB/s | 2TB/s | 1008 GB/s |\n"
        "| L2 cache | 50 MB | 50 MB | 72 MB |\n| Price | 1 | 2 | 3 |\n",
        devices,
    )
    # The PCIe card is another device than the record describes.
    assert found == {
        ("h100", "bandwidth", 3.35e12),
        ("rtx4090", "bandwidth", 1.008e12),
        ("h100", "caches.l2.bytes", 50 * 2**20),
        ("rtx4090", "caches.l2.bytes", 72 * 2**20),
    }


def test_a_device_a_row(devices: Devices) -> None:
    found = told(
        "| GPU | Compute units | Peak memory bandwidth (GB/s) |\n|---|---|---|\n"
        "| AMD Instinct MI300X | 304 | 5300 |\n",
        devices,
    )
    assert found == {("mi300x", "units", 304), ("mi300x", "bandwidth", 5.3e12)}


def test_a_column_a_compute_capability(devices: Devices) -> None:
    found = told(
        "| Compute capability | 8.0 | 9.0 |\n| --- | --- | --- |\n"
        "| Maximum amount of shared memory per multiprocessor | 164 KB | 228 KB |\n",
        devices,
    )
    name = "limits.shared_memory_per_sm"
    assert ("a100", name, 164 * 1024) in found
    assert {("h100", name, 228 * 1024), ("h200", name, 228 * 1024)} <= found


def test_numbers_of_versions_are_no_devices(devices: Devices) -> None:
    text = "| Release | 8.0 | 9.0 |\n| --- | --- | --- |\n| SMs | 1 | 2 |\n"
    assert told(text, devices) == set()


def test_a_list_of_figures_under_a_heading_that_names_the_device(devices: Devices) -> None:
    text = "| figure | value |\n| --- | --- |\n| L2 cache latency | 273 cycles |\n"
    assert told(text, devices, "Study > The H100 > Latency") == {
        ("h100", "limits.l2_latency_cycles", 273)
    }
    assert told(text, devices, "Study > H100 and A100") == set()


def test_a_footnote_is_told_and_sparse_peaks_are_left_out(devices: Devices) -> None:
    (one,) = read(
        "| | H100 SXM |\n| --- | --- |\n| FP16 Tensor Core* | 1,979 teraFLOPS |\n"
        "| INT8 with sparsity | 3958 TOPS |\n",
        devices,
    )
    assert one.field == "peak.float16"
    assert "sparsity" in one.note
    assert one.source() == "m.pdf, Table, page 7: FP16 Tensor Core* = 1,979 teraFLOPS"


def test_a_table_that_is_none_gives_nothing(devices: Devices) -> None:
    assert list(tables("a | b\nc | d\n")) == []
    assert told("| H100 |\n| --- |\n", devices) == set()
    assert told("| | H100 |\n| --- | --- |\n| SMs |\n", devices) == set()


def test_names_of_devices_are_told_apart(devices: Devices) -> None:
    assert devices.named("NVIDIA GeForce RTX 4090") == ["rtx4090"]
    assert devices.named("RTX 4090 Laptop") == []
    assert devices.named("H100 and H200") == []
    assert devices.named("MI300X OAM") == ["mi300x"]


def test_the_data_of_figures_fit_the_record(tmp_path: Path) -> None:
    from ingest.figures.extract import _figures

    fields = {one.field.split(".")[0] for one in _figures()}
    assert fields <= set(TargetRecord.model_fields)
