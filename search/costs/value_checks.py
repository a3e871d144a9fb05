"""References that check their inputs' values: what is traced is the way past the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import cycle
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_MOST = 32  # questions of one forward: each is answered the other way once
_truth = torch.Tensor.__bool__


class _Scalars(TorchDispatchMode):
    """Counts the elements that Python takes out of tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.taken = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.taken += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@contextmanager
def _asking(answer: Callable[[torch.Tensor], bool]) -> Iterator[None]:
    """Have `answer` say whether a tensor is true, also where a function of torch's asks, which no mode sees."""
    torch.Tensor.__bool__ = answer  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.Tensor.__bool__ = _truth  # type: ignore[method-assign]


@contextmanager
def answered(answers: Sequence[bool]) -> Iterator[None]:
    """Answer what is asked of tensors without values, as often as the forward is run."""
    following = cycle(answers)

    def answer(tensor: torch.Tensor) -> bool:
        known = type(tensor) in (torch.Tensor, torch.nn.Parameter)
        return _truth(tensor) if known else next(following)

    with _asking(answer):
        yield


def checks(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[bool]:
    """Return what `model` asks of values where it asks only to raise an error, else nothing.

    Each question, answered the other way, must raise. Where the forward goes on either way its result depends on
    the answer, and a trace would hold one of two programs. A copy is asked: a forward may write into its buffers.
    """
    answers: list[bool] = []
    model = deepcopy(model)

    def run(turned: int | None = None) -> None:
        answers.clear()

        def answer(tensor: torch.Tensor) -> bool:
            answers.append(_truth(tensor))
            return answers[-1] != (len(answers) - 1 == turned)

        with torch.no_grad(), _asking(answer):
            model(*inputs)

    with _Scalars() as scalars:
        run()
    found = [*answers]
    if scalars.taken > len(found) or len(found) > _MOST:
        return []
    for number in range(len(found)):
        try:
            run(number)
        except torch.OutOfMemoryError:
            return []  # nothing was learnt of this question
        except Exception:  # noqa: BLE001, S112 - whatever the user's check raises
            continue
        return []
    return found
