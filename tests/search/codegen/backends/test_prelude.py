"""The host's helpers of GPU kernels: what is kept, and what is made again."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from search.codegen.backends.prelude import needed


def kept() -> Any:
    scope: dict[str, Any] = {"weakref": weakref, "torch": torch}
    for text in needed("_kept(0, 0, 0)"):
        exec(text, scope)
    return scope["_kept"]


def test_a_packed_parameter_is_made_once() -> None:
    keep, weight, made = kept(), torch.nn.Parameter(torch.ones(4)), []
    for _ in range(3):
        assert keep("w", (weight,), lambda: made.append(1) or weight.sum().item()) == 4.0
    assert len(made) == 1


def test_a_parameter_that_was_loaded_anew_is_packed_anew() -> None:
    keep, weight = kept(), torch.nn.Parameter(torch.ones(4))
    assert keep("w", (weight,), lambda: weight.sum().item()) == 4.0
    with torch.no_grad():
        weight.copy_(torch.zeros(4))
    assert keep("w", (weight,), lambda: weight.sum().item()) == 0.0


def test_another_parameter_at_the_same_address_is_packed_anew() -> None:
    keep, memory = kept(), torch.ones(4)
    first, second = torch.nn.Parameter(memory), torch.nn.Parameter(memory)
    assert first.data_ptr() == second.data_ptr()
    assert keep("w", (first,), lambda: "first") == "first"
    assert keep("w", (second,), lambda: "second") == "second"
