"""Narrow floats: what torch's conversions say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton.language as tl

from search.judging.dryrun.interpreter.low_precision import decode, encode, is_narrow, to_tf32


def test_bfloat16_rounds_to_the_nearest_as_torch_does():
    torch.manual_seed(0)
    values = torch.cat([torch.randn(5000) * 10.0**power for power in range(-30, 30, 5)])
    values = torch.cat([values, torch.tensor([0.0, -0.0, float("inf"), -float("inf")])])
    bits = encode(values.numpy(), tl.bfloat16)
    assert torch.equal(torch.from_numpy(bits.view(np.int16)), values.bfloat16().view(torch.int16))
    assert np.array_equal(decode(bits, tl.bfloat16), values.bfloat16().float().numpy())


def test_a_nan_stays_one():
    assert np.isnan(decode(encode(np.array([np.nan]), tl.bfloat16), tl.bfloat16)).all()


@pytest.mark.parametrize(
    ("kind", "same"), [(tl.float8e5, torch.float8_e5m2), (tl.float8e4nv, torch.float8_e4m3fn)]
)
def test_eight_bit_floats_saturate_and_round_as_torch_does(kind, same):
    values = torch.linspace(-400, 400, 4001)
    bits = encode(values.numpy(), kind)
    assert np.array_equal(decode(bits, kind), values.to(same).float().numpy())
    top = torch.finfo(same).max
    assert decode(encode(np.array([1e9]), kind), kind) == top


def test_tf32_keeps_ten_bits_of_the_mantissa():
    values = np.array([1 + 2.0**-10, 1 + 2.0**-11, 1 + 2.0**-12, -3.14159265], dtype=np.float32)
    rounded = to_tf32(values)
    assert rounded[0] == values[0]
    assert rounded[1] == np.float32(1 + 2.0**-10)
    assert rounded[2] == np.float32(1)
    assert abs(rounded[3] - values[3]) <= 2.0**-10


def test_only_what_numpy_lacks_is_narrow():
    assert is_narrow(tl.bfloat16)
    assert is_narrow(tl.float8e5)
    assert not is_narrow(tl.float16)
    assert not is_narrow(tl.int8)
