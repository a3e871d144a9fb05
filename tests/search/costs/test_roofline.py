from dataclasses import replace

import pytest

from kb.errors import RecordError
from kb.records.schema import TargetRecord
from search.costs.graph import Work
from search.costs.roofline import features, roofline


def target(**values: object) -> TargetRecord:
    return TargetRecord.model_validate(
        {
            "kind": "target", "title": "one", "name": "one", "vendor": "v", "architecture": "a", "device": "cpu",
            "languages": ("cpp",), "units": 4, "clock": 1e9, "simd_width": 256, "peak": {"float32": 128e9},
            "bandwidth": 1e10, **values,
        }
    )  # fmt: skip


def work(flops: float, moved: float, *families: str) -> Work:
    return Work(
        flops=flops,
        bytes=moved,
        traffic=moved,
        families=families,
        sure_flops=flops,
        sure_bytes=moved,
    )


def test_the_slower_of_memory_and_arithmetic_is_the_floor() -> None:
    floor, terms = roofline(work(32e9, 1e9, "matmul"), target())
    assert terms == {"memory": pytest.approx(0.1), "arithmetic": pytest.approx(1.0)}
    assert floor == pytest.approx(1.0)
    assert roofline(work(1e9, 1e10, "elementwise"), target())[0] == pytest.approx(1.0)


def test_more_threads_raise_the_rate_up_to_the_number_of_cores() -> None:
    cycles = {"float32": 32.0}
    assert roofline(work(32e9, 1, "matmul"), target(flops_per_cycle=cycles), threads=2)[
        0
    ] == pytest.approx(0.5)
    assert roofline(work(32e9, 1, "matmul"), target(flops_per_cycle=cycles), threads=64)[
        0
    ] == pytest.approx(0.25)


def test_only_what_nobody_can_spare_is_a_floor() -> None:
    half = replace(work(32e9, 1e9, "matmul", "reduction"), sure_flops=1.0, sure_bytes=5e8)
    floor, terms = roofline(half, target())
    assert floor == pytest.approx(0.05)
    assert terms == {"memory": pytest.approx(0.1), "arithmetic": pytest.approx(1.0)}


def test_a_record_without_a_rate_is_told() -> None:
    with pytest.raises(RecordError, match="float32 rate"):
        roofline(work(1, 1, "matmul"), target(peak={"bfloat16": 1e9}))


def test_split_products_on_tensor_cores_are_not_called_impossible() -> None:
    gpu = target(
        device="gpu", units=100, peak={"float32": 60e12, "tf32": 490e12, "float16": 990e12}
    )
    product = work(66e12, 1, "matmul")
    strict, _ = roofline(product, gpu, 100)
    loose, _ = roofline(product, gpu, 100, "kernelbench")
    assert strict == pytest.approx(0.2)
    assert loose == pytest.approx(66 / 990)


def test_products_of_two_byte_numbers_are_bounded_by_the_rate_of_those() -> None:
    gpu = target(
        device="gpu", flops_per_cycle={}, peak={"float32": 6e13, "float16": 9e14, "bfloat16": 9e14}
    )
    short = replace(work(1.8e11, 1, "matmul"), short=True)
    assert roofline(short, gpu, threads=4)[0] == pytest.approx(2e-4)
    assert roofline(replace(short, short=False), gpu, threads=4)[0] == pytest.approx(6e-4)
    recorded = target(flops_per_cycle={"float32": 32.0}, peak={"float32": 1e11, "bfloat16": 3e12})
    assert roofline(short, recorded, threads=4)[0] == pytest.approx(0.06)
    # Of bfloat16 six products make a strict one; where less is asked for, one may do.
    assert roofline(replace(short, short=False), recorded, threads=4)[0] == pytest.approx(0.36)
    assert roofline(replace(short, short=False), recorded, 4, "half")[0] == pytest.approx(0.06)
    # A processor of which no such rate is recorded may have tiles.
    unknown = target(flops_per_cycle={"float32": 32.0})
    assert roofline(short, unknown, threads=4)[0] == pytest.approx(1.8e11 / (4 * 32e9 * 16))


def test_without_tensor_cores_ordinary_arithmetic_is_the_bound() -> None:
    gpu = target(device="gpu", units=100, peak={"float32": 60e12})
    assert roofline(work(60e12, 1, "matmul"), gpu, 100)[0] == pytest.approx(1.0)


def test_features_of_a_bound_are_rates_and_its_terms() -> None:
    told = features(work(2e9, 1e9, "softmax"), 0.5, 0.1, {"memory": 0.1, "arithmetic": 0.01})
    assert told["gflops"] == pytest.approx(4.0)
    assert told["bandwidth"] == pytest.approx(2e9)
    assert told["roofline"] == pytest.approx(0.2)
    assert told["floor_memory"] == 0.1
