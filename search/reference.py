"""A task's reference, loaded and checked: what a candidate is compared with."""

from __future__ import annotations

import os
import re
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from kb.errors import TaskError, ToolchainError
from search import seeds
from search.judged import JudgedTask, plain_task
from search.strides import TensorLayout
from search.user_program import execute, foreign

if TYPE_CHECKING:
    from search.task import Task  # a judging machine need not have what checks task files

# In the source of a reference that may return vectors with either sign.
_FACTORISING = re.compile(r"\b(svd|eigh)\b")
# Outputs are of these types. Whole ones are compared exactly, or hold indices (`search.judging.indices`).
FLOATS = frozenset({torch.float32, torch.float16, torch.bfloat16})
WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool})
MOST_OUTPUTS = 256
_PIECE = 1 << 26  # elements that are compared in one go
_NORMS = (nn.modules.batchnorm._NormBase,)
Scalar = int | float | bool | str | None
Inputs = tuple[torch.Tensor | Scalar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The reference, ready to run in this process.

    Attributes:
        model: the reference with `state` loaded, on the device, without gradients.
        init_inputs: arguments of the constructor.
        inputs: one draw of `get_inputs()`: tensors, and plain scalars.
        state: parameters and buffers that the judge gives to the reference and to every candidate;
            perturbed, so that a zero bias or a unit gain cannot be left out unnoticed.
        initial_state: what the constructor alone left under the judge's seed.
        outputs: layouts of the outputs, in order.
        single_output: the forward returns a tensor, not a tuple or list.
        views: numbers of the outputs that share memory with an input.
        twins: numbers of those that share memory with another output.
        draw: makes a fresh set of inputs from a seed, as `get_inputs()` does.
        writes: buffers that the forward changes.
    """

    task: JudgedTask
    seed: int
    model: nn.Module
    init_inputs: tuple[Any, ...]
    inputs: Inputs
    state: dict[str, torch.Tensor]
    initial_state: dict[str, torch.Tensor]
    outputs: tuple[TensorLayout, ...]
    single_output: bool
    views: frozenset[int]
    twins: frozenset[int]
    draw: Callable[[int], Inputs]
    writes: tuple[str, ...] = ()

    @property
    def packs(self) -> bool:
        """Whether weights may be packed once; else they change from call to call.

        Where no input is a floating-point tensor, a table of the answers to every possible input would be
        packing too: that is folding the whole network, and allowed only where the task says so.
        """
        packing = self.task.settings.packing
        return packing == "tables" or (packing == "allowed" and not self.countable)

    @property
    def special(self) -> bool:
        """Whether an answer may be right in several ways: indices, as integers may be, or factors of a matrix."""
        return self.factorises or any(layout.dtype in WHOLE for layout in self.outputs)

    @property
    def factorises(self) -> bool:
        """Whether the reference names a decomposition, whose vectors it may return."""
        return _FACTORISING.search(self.task.source) is not None

    @property
    def countable(self) -> bool:
        """Whether no input is a floating-point tensor, so that there may be few possible ones."""
        return not any(
            isinstance(value, torch.Tensor) and value.is_floating_point() for value in self.inputs
        )

    def run(
        self, *inputs: Any, state: Mapping[str, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Return what the reference computes, always as a tuple.

        Args:
            state: parameters instead of its own.
        """
        with torch.no_grad():
            if state is None:
                return as_tuple(self.model(*inputs))
            return as_tuple(torch.func.functional_call(self.model, dict(state), inputs))


def as_tuple(result: Any) -> tuple[torch.Tensor, ...]:
    """Return a forward's result as a tuple of tensors."""
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def load_problem(task: Task | JudgedTask, seed: int = 0, device: str = "cpu") -> Problem:
    """Execute the reference of `task` and check that candidates can be judged against it.

    Args:
        task: a reference in KernelBench's format: ``Model``, ``get_inputs()`` and, where the
            constructor takes arguments, ``get_init_inputs()``.
        seed: of parameters and of the first draw of inputs.
        device: where the model and its inputs are put, "cpu" or "cuda".

    Raises:
        TaskError: the reference cannot be judged; one line says why and what would do.
        ToolchainError: torch cannot use the device.
    """
    task = plain_task(task)
    _require_device(device)
    try:
        return _loaded(task, seed, device)
    except torch.OutOfMemoryError as error:
        found = str(error).split(". ")[0]
        raise TaskError(
            f"{task.reference}: the device has no memory left to load it ({found}): make the inputs smaller, or end what "
            "else uses the device"
        ) from error


def _loaded(task: JudgedTask, seed: int, device: str) -> Problem:
    module = execute(task)
    build, draw = _definitions(task, module)
    draw = seeds.drawn_on(device, draw)
    init = _init_inputs(task, getattr(module, "get_init_inputs", None))

    def drawn(number: int) -> Inputs:
        with foreign(task, "get_inputs()"), seeds.seeded(number, device):
            return _moved(_checked_inputs(task, draw(), device), device)

    fresh = _of_one_kind(task, drawn)
    inputs = fresh(seed)
    with foreign(task, "Model(...)"), _seeded(seed):
        model = build(*init).requires_grad_(False)
    initial = {name: value.detach().clone() for name, value in model.state_dict().items()}
    _check_cpu(task, "parameter", initial)
    state = _perturbed(model, initial, seed)
    model.load_state_dict(state)
    model.to(device)
    result, writes = _run_twice(task, model, inputs)
    views, twins = _shared_outputs(model, inputs)
    return Problem(
        task=task,
        seed=seed,
        model=model,
        init_inputs=init,
        inputs=inputs,
        state={name: value.to(device) for name, value in state.items()},
        initial_state={name: value.to(device) for name, value in initial.items()},
        outputs=_checked_outputs(task, result),
        single_output=isinstance(result, torch.Tensor),
        views=views,
        twins=twins,
        draw=fresh,
        writes=writes,
    )


def _require_device(device: str) -> None:
    if device == "cuda":
        # Read when memory is first asked for: answers of gigabytes leave no room for gaps.
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    if device == "cuda" and not torch.cuda.is_available():
        raise ToolchainError(
            f"expected an NVIDIA device that torch {torch.__version__} can use, found none: "
            "install a torch with CUDA and the driver, or name a target without it"
        )


def _definitions(
    task: JudgedTask, module: types.ModuleType
) -> tuple[type[nn.Module], Callable[[], Any]]:
    """Return the reference's class and what draws its inputs."""
    build, draw = getattr(module, "Model", None), getattr(module, "get_inputs", None)
    if not isinstance(build, type) or not issubclass(build, nn.Module):
        raise TaskError(
            f"{task.reference}: expected a class Model(nn.Module), found none: define it"
        )
    if not callable(draw):
        raise TaskError(
            f"{task.reference}: expected a function get_inputs(), found none: return a list of tensors"
        )
    return build, draw


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _init_inputs(task: JudgedTask, source: Any) -> tuple[Any, ...]:
    if source is None:
        return ()
    with foreign(task, "get_init_inputs()"), _seeded(0):
        values = source()
    if not isinstance(values, (list, tuple)):
        raise TaskError(
            f"{task.reference}: get_init_inputs() must return a list, found {type(values).__name__}"
        )
    return tuple(values)


def _checked_inputs(task: JudgedTask, values: Any, device: str = "cpu") -> Inputs:
    if not isinstance(values, (list, tuple)):
        raise TaskError(
            f"{task.reference}: get_inputs() must return a list of tensors, found {type(values).__name__}"
        )
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            if value.device.type != device:
                _check_cpu(task, "input", {str(number): value})
            if value.numel() == 0:
                raise TaskError(
                    f"{task.reference}: input {number} is empty {tuple(value.shape)}: give it at least one element"
                )
            if value.layout is not torch.strided or value.is_complex():
                raise TaskError(
                    f"{task.reference}: input {number} is a {value.layout} {value.dtype}: kb judges dense real tensors"
                )
        elif value is not None and not isinstance(value, (int, float, bool, str)):
            raise TaskError(
                f"{task.reference}: input {number} is a {type(value).__name__}: give tensors and plain numbers"
            )
    if not any(isinstance(value, torch.Tensor) for value in values):
        raise TaskError(f"{task.reference}: get_inputs() returned no tensor: give at least one")
    return tuple(value.detach() if isinstance(value, torch.Tensor) else value for value in values)


def _of_one_kind(task: JudgedTask, draw: Callable[[int], Inputs]) -> Callable[[int], Inputs]:
    """Return `draw`, which from its second call on refuses what varies but for the values of tensors."""
    first: list[Any] = []

    def drawn(number: int) -> Inputs:
        found = draw(number)
        kinds = [(tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x for x in found]
        first.extend(() if first else kinds)
        if kinds != first:
            raise TaskError(
                f"{task.reference}: get_inputs() returns {first} in one call and {kinds} in another: kb judges one "
                "shape, type and number, draw the values of tensors alone"
            )
        return found

    return drawn


def _moved(values: Inputs, device: str) -> Inputs:
    return tuple(x.to(device) if isinstance(x, torch.Tensor) else x for x in values)


def _check_cpu(task: JudgedTask, what: str, tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.device.type != "cpu":
            raise TaskError(
                f"{task.reference}: {what} {name} is on {tensor.device}: make it on the CPU, kb moves it"
            )


def _perturbed(
    model: nn.Module, initial: dict[str, torch.Tensor], seed: int
) -> dict[str, torch.Tensor]:
    """Move every parameter off its initial value, constant ones (zeros, ones) most visibly."""
    generator = torch.Generator().manual_seed(seed + 0x5EED)
    movable = {name for name, _ in model.named_parameters()}
    for prefix, module in model.named_modules():
        if isinstance(module, _NORMS):
            movable |= {f"{prefix}.{name}".lstrip(".") for name in ("running_mean", "running_var")}
    state: dict[str, torch.Tensor] = {}
    for name, value in initial.items():
        if name not in movable or not value.is_floating_point() or value.numel() == 0:
            state[name] = value.clone()
            continue
        scale = 1 + 0.2 * (2 * torch.rand(value.shape, generator=generator) - 1)
        moved = value * scale.to(value.dtype)
        if bool((value == value.flatten()[0]).all()):
            moved = moved + 0.25 * (2 * torch.rand(value.shape, generator=generator) - 1).to(
                value.dtype
            )
        state[name] = moved
    return state


def _run_twice(
    task: JudgedTask, model: nn.Module, inputs: tuple[Any, ...]
) -> tuple[Any, tuple[str, ...]]:
    """Return what two runs on equal inputs answer, and the buffers that they change; refuse one that is random."""
    results = []
    before = {name: value.clone() for name, value in model.named_buffers()}
    for seed in (1, 2):
        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        with foreign(task, "Model.forward()"), _seeded(seed), torch.no_grad():
            results.append(model(*copies))
        for number, (given, after) in enumerate(zip(inputs, copies, strict=True)):
            if isinstance(given, torch.Tensor) and not _same(given, after):
                raise TaskError(
                    f"{task.reference}: forward changes its input {number}: use operators that return new tensors"
                )
        del copies, given, after  # where there are gigabytes, each copy counts
    first, second = results
    outputs = _checked_outputs(task, first)
    pairs = zip(as_tuple(first), as_tuple(second), strict=True)
    for number, (one, other) in enumerate(pairs):
        bad = sum(int((~torch.isfinite(part)).sum()) for part in _pieces(one))
        if bad:
            raise TaskError(
                f"{task.reference}: output {number} has {bad} of {one.numel()} elements that are NaN or infinite on "
                "inputs of get_inputs(): mend the reference or its inputs"
            )
        if one.shape != other.shape or not _alike(one, other):
            raise TaskError(
                f"{task.reference}: two runs on equal inputs differ in output {number} of {len(outputs)}: the reference "
                "is random (dropout in training mode?): call self.eval() in its constructor or remove it"
            )
    return first, tuple(n for n, one in model.named_buffers() if not _same(one, before.get(n, one)))


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype in WHOLE:
        return torch.equal(one, other)
    pairs = zip(_pieces(one), _pieces(other), strict=True)
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs)


def _pieces(value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return all elements in parts: what compares them takes memory."""
    return torch.split(value.reshape(-1), _PIECE)


def _shared_outputs(
    model: nn.Module, inputs: tuple[Any, ...]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return which outputs share memory with an input, and which with another output."""
    with torch.no_grad():
        outputs = as_tuple(model(*inputs))
    given = {x.untyped_storage().data_ptr() for x in inputs if isinstance(x, torch.Tensor)}
    places = [value.untyped_storage().data_ptr() for value in outputs]
    views = frozenset(number for number, place in enumerate(places) if place in given)
    twins = frozenset(number for number, place in enumerate(places) if places.count(place) > 1)
    return views, twins - views


def _checked_outputs(task: JudgedTask, result: Any) -> tuple[TensorLayout, ...]:
    path = task.reference
    if not isinstance(result, (torch.Tensor, tuple, list)):
        raise TaskError(
            f"{path}: forward returns a {type(result).__name__}: return a tensor or a tuple of tensors"
        )
    values = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    if not values:
        raise TaskError(f"{path}: forward returns an empty tuple: return at least one tensor")
    if len(values) > MOST_OUTPUTS:
        raise TaskError(f"{path}: forward returns {len(values)} tensors: at most {MOST_OUTPUTS}")
    for number, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            raise TaskError(
                f"{path}: output {number} is a {type(value).__name__}: return a tensor or a tuple of tensors"
            )
        if value.numel() == 0:
            raise TaskError(
                f"{path}: output {number} is empty {tuple(value.shape)}: there is nothing to judge"
            )
        if value.dtype not in FLOATS and value.dtype not in WHOLE:
            raise TaskError(
                f"{path}: output {number} is {value.dtype}: kb judges outputs in torch.float32, torch.float16, "
                "torch.bfloat16, integers and booleans: return such a tensor"
            )
    return tuple(TensorLayout.of(value) for value in values)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.equal(one, other) or ((one == other) | (one.isnan() & other.isnan())).all())
