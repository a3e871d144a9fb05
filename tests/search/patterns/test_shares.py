from __future__ import annotations

import pytest

from search.outcome import KernelTime
from search.patterns.shares import measured_shares


def kernel(name: str, seconds: float) -> KernelTime:
    return KernelTime(name=name, count=1, seconds=seconds, own=True)


def test_time_goes_to_the_families_that_names_say() -> None:
    shares = measured_shares([kernel("ampere_sgemm_128x64", 3.0), kernel("softmax_rows", 1.0)], {})
    assert shares == {"matmul": 0.75, "softmax": 0.25}


def test_a_name_that_says_two_gives_each_a_half() -> None:
    assert measured_shares([kernel("conv_pool_kernel", 2.0)], {}) == {
        "convolution": 0.5,
        "pooling": 0.5,
    }


def test_a_name_that_says_nothing_is_shared_out_by_the_estimate() -> None:
    shares = measured_shares(
        [kernel("fused_kernel_0", 1.0), kernel("layer_norm", 1.0)], {"scan": 0.5, "sort": 0.5}
    )
    assert shares == pytest.approx({"scan": 0.25, "sort": 0.25, "normalization": 0.5})


def test_without_a_profile_there_are_no_shares() -> None:
    assert measured_shares([], {"scan": 1.0}) == {}
