from __future__ import annotations

from pathlib import Path

import pytest
from traced import traced

from search.patterns.flow import Flow
from search.patterns.traits.products import product_traits

BOTH = "torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16()"
PRECISIONS = {
    "one product in two bytes": ("return x @ y", BOTH, True),
    "float32 beside it, in no product": ("return (x @ y).float().softmax(-1)", BOTH, True),
    "a second product in float32": ("return (x @ y).float() @ y.float()", BOTH, False),
    "a convolution in float32": (
        "return F.conv1d((x @ y).float()[None], torch.ones(4, 64, 3))", BOTH, False,
    ),
    "no product": ("return x + y", BOTH, False),
}  # fmt: skip


@pytest.mark.parametrize("name", PRECISIONS)
def test_products_are_half_precision_where_every_one_is(tmp_path: Path, name: str) -> None:
    forward, inputs, expected = PRECISIONS[name]
    found = dict(product_traits(Flow(traced(tmp_path, forward, inputs))))
    assert ("half-precision-products" in found) is expected
