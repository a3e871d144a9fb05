from __future__ import annotations

from pathlib import Path

import pytest
from traced import traced

from search.patterns.traits.rows import Rows, rows_of

ALONG = {
    "along rows": ("return torch.softmax(x, -1)", "torch.randn(8, 96)", Rows(length=96, columns=False)),
    "along columns": ("return x.sum(0)", "torch.randn(512, 8)", Rows(length=512, columns=True)),
    "between": ("return x.amax(1)", "torch.randn(2, 96, 8)", Rows(length=96, columns=True)),
    "over several": ("return F.layer_norm(x, (16, 8))", "torch.randn(2, 16, 8)", Rows(length=128, columns=False)),
    "over all": ("return x.mean()", "torch.randn(16, 8)", Rows(length=128, columns=False)),
    "behind what is elementwise": ("return (x * 2).exp().sum(1)", "torch.randn(2, 96, 8)", Rows(length=96, columns=True)),
    "of what is smaller": ("return torch.softmax(x @ y, 0)", "torch.randn(64, 64), torch.randn(64, 2)", None),
    "along nothing": ("return x.exp()", "torch.randn(8, 96)", None),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONG)
def test_rows_are_what_the_first_reduction_of_an_input_runs_along(
    tmp_path: Path, name: str
) -> None:
    forward, inputs, expected = ALONG[name]
    assert rows_of(traced(tmp_path, forward, inputs)) == expected
