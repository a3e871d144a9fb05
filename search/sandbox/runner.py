"""The process that holds a candidate. It obeys the judge and is trusted by nobody.

What it reports is convenience: every verdict rests on what the judge sees itself.
"""

from __future__ import annotations

import gc
import json
import linecache
import os
import sys
import traceback
import types
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from kb.runtime import cpp
from search.reference import MOST_OUTPUTS
from search.sandbox.missing_names import missing_names
from search.sandbox.parameters import construct, seed_all
from search.sandbox.shared_memory import (
    DONE,
    EMPTY,
    FAILED,
    GO,
    KEEP,
    NO_CALL,
    ON_COPIES,
    PIN,
    POINTERS,
    PREPARE,
    READY,
    STOP,
    Arena,
    keep_freed_memory,
    scrub,
)

NAME = "candidate.py"
_FREED = 0x7F  # what was freed reads 0x7f7f7f7f, 3.4e38 as float32
_data_ptr = torch.Tensor.data_ptr
# A model may bring one of its own, which need not say what parameters it has.
_state_dict = torch.nn.Module.state_dict


# Of a candidate: what each needs first takes a process that was just forked some milliseconds.
_SMALL = """
import ctypes
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(
            [torch.nn.Linear(1, 1), torch.nn.Conv2d(1, 1, 1), torch.nn.BatchNorm2d(1), torch.nn.LayerNorm(1)]
        )
"""


class Runner:
    """Answers one judge over a socket, one JSON object a line."""

    def __init__(self, control: int, arena_fd: int) -> None:
        self._control = control
        self._arena_fd = arena_fd
        self._pending = b""
        self._arena: Arena
        self._model: Any = None

    def prepare(self) -> None:
        """Do what cannot be done behind the walls, before any of the candidate is here."""

    def serve(self) -> None:
        """Answer until the judge hangs up."""
        _warm_up()
        while True:
            line = self._read()
            if line is None:
                return
            message = json.loads(line)
            try:
                answer = getattr(self, f"do_{message.pop('op')}")(**message)
            except BaseException as error:  # noqa: BLE001 - the candidate may raise anything
                answer = {"raised": describe(error)}
            self._say(answer)

    def do_load(
        self,
        source: str,
        prebuilt: dict[str, str],
        seed: int,
        init: Any,
        layout: dict[str, Any],
        packing: bool,
    ) -> dict[str, Any]:
        """Execute the candidate and construct its model; `packing`: with the judge's parameters in it."""
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        keep_freed_memory()
        cpp.prebuilt, cpp.sealed = dict(prebuilt), True
        self._begin(layout)
        module = types.ModuleType("candidate")
        module.__file__ = NAME
        sys.modules["candidate"] = module
        linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
        exec(compile(source, NAME, "exec"), module.__dict__)  # noqa: S102 - that is what this process is for
        build = getattr(module, "ModelNew", None)
        if build is None:
            return {"missing": "ModelNew"}
        arguments = decode(init)
        seed_all(seed)
        if packing:
            model = construct(lambda: build(*arguments), self._arena.state, seed)
        else:
            model = build(*arguments)
        self._model = self._place(model)
        state = _state_dict(self._model) if isinstance(self._model, torch.nn.Module) else {}
        return {"state": {name: [list(x.shape), str(x.dtype)] for name, x in state.items()}}

    def _begin(self, layout: dict[str, Any]) -> None:
        """Open the memory that is shared with the judge."""
        self._arena = Arena(self._arena_fd, layout)

    def _place(self, model: Any) -> Any:
        """Put a constructed model where it is to run."""
        return model

    def do_adopt(self, copied: bool) -> dict[str, Any]:
        """Take the judge's parameters.

        Args:
            copied: into memory of the model's own; else they stay where the judge changes them.
        """
        self._model.load_state_dict(self._arena.state)
        if not copied:
            named = _state_dict(self._model, keep_vars=True)
            for name, value in self._arena.state.items():
                named[name].data = value
        return {}

    def do_baseline(self, mode: str | None = None) -> dict[str, Any]:
        """Put ``torch.compile`` before the model: only the judge's own reference is asked this."""
        self._model = torch.compile(self._model, dynamic=False, mode=mode)
        for _ in range(2):
            self._model(*self._arena.inputs)
        return {}

    def do_calls(self, spare: list[int], shared: bool) -> dict[str, Any]:
        """Make calls on the judge's signal, in shared memory, until it says stop: questions and timed ones.

        Args:
            spare: bytes of memory to leave as memory looks that has been freed.
            shared: the judge waits on this processor, so that who has nothing to do leaves it.
        """
        words, model, inputs = self._arena.words, self._model, self._arena.inputs
        wait, wake = (self._arena.wait, self._arena.wake) if shared else (_spin, _nobody_waits)
        kept: deque[Any] = deque()
        pinned: list[Any] = []
        with _spoiling():
            _bytes = [torch.empty(size, dtype=torch.uint8) for size in spare]
            del _bytes
        gc.collect()
        gc.disable()
        call = 0
        try:
            while True:
                while words[PREPARE] == call:
                    if words[STOP]:
                        return {"calls": call}
                    wait(PREPARE, call)
                call = words[PREPARE]
                result = None
                while len(kept) > words[KEEP]:
                    kept.popleft()
                words[READY] = call
                wake(READY)
                while (go := words[GO]) != call:
                    if words[STOP]:
                        return {"calls": call}
                    wait(GO, go)
                empty = words[EMPTY]
                if empty != NO_CALL:
                    result = model(*(_copies(inputs) if empty == ON_COPIES else inputs))
                    self._point(result)
                words[DONE] = call
                wake(DONE)
                wait(PREPARE, call)
                if empty != NO_CALL:
                    kept.append(result)
                    if words[PIN] == call:
                        pinned.append(result)
                    self._say(described(result))
        except BaseException:
            words[FAILED] = 1
            raise
        finally:
            gc.enable()

    def _point(self, result: Any) -> None:
        """Say where an answer lies; what is no tensor lies nowhere."""
        words = self._arena.words
        if type(result) is torch.Tensor:
            words[POINTERS] = _data_ptr(result)
            return
        values = result if isinstance(result, (tuple, list)) else (result,)
        for number, value in enumerate(values[:MOST_OUTPUTS]):
            words[POINTERS + number] = _data_ptr(value) if isinstance(value, torch.Tensor) else 0

    def _say(self, message: dict[str, Any]) -> None:
        self._write(json.dumps(message).encode() + b"\n")

    def _read(self) -> bytes | None:
        while b"\n" not in self._pending:
            piece = os.read(self._control, 1 << 16)
            if not piece:
                return None
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _write(self, line: bytes) -> None:
        while line:
            line = line[os.write(self._control, line) :]


def _spin(word: int, known: int) -> None:
    """Wait on a processor of one's own."""


def _nobody_waits(word: int) -> None:
    """Wake nobody: the judge looks without a pause."""


def _copies(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs in other memory; what lies in their own is no input any more."""
    made = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    scrub(inputs)
    for value, copy in zip(inputs, made, strict=True):
        if isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dim():
            # Whole numbers that are valid, in other places.
            value.copy_(copy.flip(tuple(range(copy.dim()))))
    return made


@contextmanager
def _spoiling() -> Iterator[None]:
    """Fill what is freed, so that an answer that is not written holds none of the earlier ones."""
    keep_freed_memory(_FREED)
    try:
        yield
    finally:
        keep_freed_memory(0)


def described(result: Any) -> dict[str, Any]:
    """Return what an answer is said to be, in JSON's values."""
    many = isinstance(result, (tuple, list))
    outputs = [_describe_output(value) for value in (result if many else (result,))]
    return {"outputs": outputs, "single": not many, "copied": True}


def _describe_output(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"type": type(value).__name__}
    return {
        "type": "Tensor" if type(value) is torch.Tensor else type(value).__name__,
        "shape": list(value.shape),
        "dtype": str(value.dtype),
        "device": value.device.type,
        "strides": list(value.stride()) if value.layout is torch.strided else [],
    }


def describe(error: BaseException) -> dict[str, str]:
    """Return an exception as type, message and the candidate's own lines of the trace."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == NAME][-4:]
    trace = "\n".join(f"line {frame.lineno}, in {frame.name}: {frame.line}" for frame in own)
    line = f"line {error.lineno}: {error.text}" if isinstance(error, SyntaxError) else ""
    # Triton tells of a fault in a called function as the cause of the call's own.
    told, cause = [str(error)], error.__cause__
    while type(cause) is type(error) and len(told) < 8:
        told.append(str(cause))
        cause = cause.__cause__
    told.append(missing_names("\n".join(told), NAME))
    return {
        "type": type(error).__name__,
        "message": "\n".join(filter(None, told))[:2000],
        "trace": (trace or line)[:2000],
    }


def encode(value: Any) -> Any:
    """Return a constructor's argument in JSON's values.

    Raises:
        TypeError: it is of a kind that cannot cross.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [encode(item) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item) for key, item in value.items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.Tensor):
        return {"tensor": value.tolist(), "of": str(value.dtype).removeprefix("torch.")}
    raise TypeError(type(value).__name__)


def decode(value: Any) -> Any:
    """Return what `encode` took."""
    if not isinstance(value, dict):
        return value
    if "list" in value:
        return [decode(item) for item in value["list"]]
    if "tuple" in value:
        return tuple(decode(item) for item in value["tuple"])
    if "dict" in value:
        return {key: decode(item) for key, item in value["dict"].items()}
    if "dtype" in value:
        return getattr(torch, value["dtype"])
    return torch.tensor(value["tensor"], dtype=getattr(torch, value["of"]))


def _warm_up() -> None:
    """Construct a model and load its parameters, while the judge waits for compilers."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    made: dict[str, Any] = {}
    exec(compile(_SMALL, NAME, "exec"), made)  # noqa: S102 - this project's own
    model = made["ModelNew"]()
    model.load_state_dict(model.state_dict())
    gc.collect()
