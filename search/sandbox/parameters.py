"""Constructs a candidate's model with the judge's parameters already in it.

A fast program packs its weights once, in the constructor. The judge's parameters are not those that a
constructor makes, so the model is constructed twice: once to see which parameter is registered when,
then again, each parameter holding the judge's values from the moment of its registration, and what
`torch.nn.init` would write over them left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_register_parameter, _register_buffer = nn.Module.register_parameter, nn.Module.register_buffer
_INITIALISERS = tuple(
    name
    for name in dir(nn.init)
    if name.endswith("_") and not name.startswith("_") and callable(getattr(nn.init, name))
)


def construct(build: Callable[[], Any], state: Mapping[str, torch.Tensor], seed: int) -> Any:
    """Return what `build` makes, its parameters holding `state` while its constructor runs.

    Args:
        build: the candidate's constructor with its arguments.
        state: the judge's parameters and buffers, by name.
        seed: of random numbers, the same for both times.
    """
    seen: list[torch.Tensor] = []
    seed_all(seed)
    with _registering(seen.append):
        first = build()
    if not isinstance(first, nn.Module):
        return first
    named = {id(value): name for name, value in first.state_dict(keep_vars=True).items()}
    names = iter([named.get(id(value)) for value in seen])
    seed_all(seed)

    def fill(value: torch.Tensor) -> None:
        wanted = state.get(next(names, None) or "")
        if wanted is not None and wanted.shape == value.shape and wanted.dtype == value.dtype:
            with torch.no_grad():
                value.copy_(wanted)

    with _registering(fill), _uninitialised():
        return build()


def seed_all(seed: int) -> None:
    """Seed what draws random numbers here, as ``torch.manual_seed`` does, which looks for devices and takes a millisecond."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # torch's own
        torch.cuda.manual_seed_all(seed)


@contextmanager
def _registering(see: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Show `see` every parameter and buffer that is registered."""

    def parameter(self: nn.Module, name: str, param: Any) -> None:
        _register_parameter(self, name, param)
        if isinstance(param, torch.Tensor):
            see(param)

    def buffer(self: nn.Module, name: str, tensor: Any, persistent: bool = True) -> None:
        _register_buffer(self, name, tensor, persistent)
        if isinstance(tensor, torch.Tensor):
            see(tensor)

    nn.Module.register_parameter = parameter  # type: ignore[method-assign]
    nn.Module.register_buffer = buffer  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = _register_parameter  # type: ignore[method-assign]
        nn.Module.register_buffer = _register_buffer  # type: ignore[method-assign]


@contextmanager
def _uninitialised() -> Iterator[None]:
    """Leave out what would overwrite a parameter that has its values."""
    kept = {name: getattr(nn.init, name) for name in _INITIALISERS}
    norm = nn.modules.batchnorm._NormBase
    reset = norm.reset_running_stats
    try:
        for name in kept:
            setattr(nn.init, name, lambda tensor, *_args, **_more: tensor)
        norm.reset_running_stats = lambda self: None  # type: ignore[method-assign] # noqa: ARG005
        yield
    finally:
        for name, function in kept.items():
            setattr(nn.init, name, function)
        norm.reset_running_stats = reset  # type: ignore[method-assign]
