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
from typing import Any

import torch

from kb.runtime import cpp
from search.sandbox.parameters import construct
from search.sandbox.shared_memory import (
    DONE,
    FAILED,
    GO,
    MOST_OUTPUTS,
    POINTERS,
    PREPARE,
    READY,
    STOP,
    Arena,
    keep_freed_memory,
)

NAME = "candidate.py"
_POISON = 0x80  # fresh memory reads 0x7f7f7f7f, 3.4e38 as float32
_data_ptr = torch.Tensor.data_ptr


class Runner:
    """Answers one judge over a socket, one JSON object a line."""

    def __init__(self, control: int, arena_fd: int) -> None:
        self._control = control
        self._arena_fd = arena_fd
        self._pending = b""
        self._arena: Arena
        self._model: Any = None
        self._held: list[Any] = []

    def prepare(self) -> None:
        """Do what cannot be done behind the walls, before any of the candidate is here."""

    def serve(self) -> None:
        """Answer until the judge hangs up."""
        while True:
            line = self._read()
            if line is None:
                return
            message = json.loads(line)
            try:
                answer = getattr(self, f"do_{message.pop('op')}")(**message)
            except BaseException as error:  # noqa: BLE001 - the candidate may raise anything
                answer = {"raised": describe(error)}
            self._write(json.dumps(answer).encode() + b"\n")

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
        torch.manual_seed(seed)
        if packing:
            model = construct(lambda: build(*arguments), self._arena.state, seed)
        else:
            model = build(*arguments)
        self._model = self._place(model)
        state = self._model.state_dict() if isinstance(self._model, torch.nn.Module) else {}
        return {"state": {name: [list(x.shape), str(x.dtype)] for name, x in state.items()}}

    def _begin(self, layout: dict[str, Any]) -> None:
        """Open the memory that is shared with the judge."""
        self._arena = Arena(self._arena_fd, layout)

    def _place(self, model: Any) -> Any:
        """Put a constructed model where it is to run."""
        return model

    def do_adopt(self) -> dict[str, Any]:
        """Take the judge's parameters."""
        self._model.load_state_dict(self._arena.state)
        return {}

    def do_call(self, hold: bool) -> dict[str, Any]:
        """Call the model once on poisoned memory and copy what it returns into the arena."""
        keep_freed_memory(_POISON)
        try:
            result = self._model(*self._arena.inputs)
        finally:
            keep_freed_memory(0)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        told = [_describe_output(value) for value in outputs]
        fits = len(outputs) == len(self._arena.outputs) and all(
            isinstance(value, torch.Tensor) and value.shape == slot.shape
            for value, slot in zip(outputs, self._arena.outputs, strict=True)
        )
        if fits:
            self._copy(outputs)
        self._held = outputs if hold else []
        return {"outputs": told, "single": not isinstance(result, (tuple, list)), "copied": fits}

    def do_recopy(self) -> dict[str, Any]:
        """Copy the outputs of the call before the last again: they must not have changed."""
        self._copy(self._held)
        self._held = []
        return {}

    def do_again(self) -> dict[str, Any]:
        """Call the model once more, keeping the held outputs alive."""
        self._model(*self._arena.inputs)
        return {}

    def do_time(self) -> dict[str, Any]:
        """Run calls on the judge's signal, in shared memory, until it says stop."""
        words, model, inputs = self._arena.words, self._model, self._arena.inputs
        gc.collect()
        gc.disable()
        call = 0
        try:
            while True:
                while words[PREPARE] == call:
                    if words[STOP]:
                        return {"calls": call}
                call = words[PREPARE]
                result = None
                words[READY] = call
                while words[GO] != call:
                    pass
                result = model(*inputs)
                if type(result) is torch.Tensor:
                    words[POINTERS] = _data_ptr(result)
                else:
                    for number, value in enumerate(result[:MOST_OUTPUTS]):
                        words[POINTERS + number] = _data_ptr(value)
                words[DONE] = call
        except BaseException:
            words[FAILED] = 1
            raise
        finally:
            gc.enable()

    def do_spin(self) -> dict[str, Any]:
        """Call the model over and over, to be looked at from outside."""
        words, model, inputs = self._arena.words, self._model, self._arena.inputs
        gc.disable()  # as in timed calls: nothing should tell a candidate which these are
        words[READY] = 1
        while not words[STOP]:
            model(*inputs)
        gc.enable()
        return {}

    def _copy(self, outputs: list[torch.Tensor]) -> None:
        for slot, value in zip(self._arena.outputs, outputs, strict=True):
            slot.copy_(value)

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
    return {
        "type": type(error).__name__,
        "message": "\n".join(told)[:2000],
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
