"""Transposed convolutions of the truth: as torch's."""

from typing import Any

import pytest
import torch
from torch import nn

from search.judging.truth.transposed import TransposedProducts

LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "plain": (nn.ConvTranspose2d(3, 5, 3), (2, 3, 6, 7)),
    "stride, padding and output padding": (
        nn.ConvTranspose2d(4, 6, (3, 5), (2, 3), (1, 4), (1, 2)),
        (3, 4, 5, 4),
    ),
    "groups and dilation": (
        nn.ConvTranspose2d(6, 4, 3, 2, 2, 1, groups=2, dilation=3, bias=False),
        (2, 6, 5, 6),
    ),
    "depthwise": (nn.ConvTranspose2d(5, 5, 4, 3, groups=5), (2, 5, 4, 3)),
    "a line": (nn.ConvTranspose1d(3, 2, 5, 2, dilation=2), (2, 3, 9)),
    "volumes": (nn.ConvTranspose3d(3, 4, 3, 2, 1, 1), (2, 3, 3, 4, 5)),
    "a stride past the kernel": (nn.ConvTranspose2d(2, 3, 1, 3), (1, 2, 4, 4)),
    "more padding than kernel": (nn.ConvTranspose2d(2, 3, 2, 1, 3), (1, 2, 9, 9)),
    "no batch": (nn.ConvTranspose2d(3, 5, 3, 2), (3, 6, 7)),
}


@pytest.mark.parametrize("name", list(LAYERS))
@pytest.mark.parametrize("images", [1, 100])
def test_products_are_the_convolution(
    name: str, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, shape = LAYERS[name]
    layer = layer.double()
    monkeypatch.setattr("search.judging.truth.transposed._BYTES", 1 if images == 1 else 1 << 28)
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    with torch.no_grad():
        wanted = layer(x)
        with TransposedProducts("cpu"):
            got = layer(x)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_it_is_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(
        "search.judging.truth.transposed.transposed", lambda *a: (calls.append(1), a[0])[1]
    )
    layer, x = nn.ConvTranspose2d(3, 3, 1), torch.randn(1, 3, 2, 2)
    with torch.no_grad(), TransposedProducts("cpu"):
        layer(x)
        assert not calls  # float32
        layer.double()(x.double())
        nn.Conv2d(3, 3, 1).double()(x.double())
    assert calls == [1]
