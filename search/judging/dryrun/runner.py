"""The process that holds a candidate of a dry run. It is trusted by nobody, as every runner."""

from __future__ import annotations

import linecache
import os
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from search.judging.dryrun.fake_device import FakeDevice, pretend, show_device
from search.judging.dryrun.interceptor import LaunchInterceptor
from search.judging.dryrun.interpreter.memory import KernelFault
from search.judging.dryrun.stubs.cute import AbsentCute
from search.judging.dryrun.stubs.launchers import stand_in
from search.languages.cute import imports_cute, is_installed
from search.sandbox.parameters import construct
from search.sandbox.runner import NAME, Runner, decode, describe, described
from search.sandbox.shared_memory import Arena, keep_freed_memory

_POISON = 0x80  # fresh memory reads 0x7f7f7f7f, 3.4e38 as float32
_DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


class DryRunner(Runner):
    """Compiles a candidate's launches for absent devices, and answers trials by interpreting them."""

    def __init__(self, control: int, arena_fd: int) -> None:
        super().__init__(control, arena_fd)
        self._session: LaunchInterceptor
        self._cute: Any = None
        self._source = ""
        self._build: Any = None
        self._held: list[Any] = []
        self._seconds = 10.0

    def do_open(self, source: str, folder: str, device: dict[str, Any]) -> dict[str, Any]:
        """Execute the candidate's file, which sees a device of the architecture given."""
        os.environ.update(TRITON_CACHE_DIR=folder, TRITON_HOME=folder, TMPDIR=folder)
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        pretend(device)
        self._session = LaunchInterceptor(Path(folder))
        self._session.aim(device)
        FakeDevice(self._session.address).__enter__()  # type: ignore[no-untyped-call]  # of torch
        show_device()
        stand_in(self._session)
        self._source = source
        if imports_cute(source) and is_installed():
            self._cute = AbsentCute(self._session, Path(folder))
            self._cute.aim(device)
        return {} if self._execute() else {"missing": "ModelNew"}

    def _execute(self) -> bool:
        """Run the candidate's file; say whether it defines what is judged."""
        source, module = self._source, types.ModuleType("candidate")
        module.__file__ = NAME
        sys.modules["candidate"] = module
        linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
        exec(compile(source, NAME, "exec"), module.__dict__)  # noqa: S102 - that is what this process is for
        self._build = getattr(module, "ModelNew", None)
        return self._build is not None

    def _aim(self, device: dict[str, Any]) -> None:
        self._session.aim(device)
        if self._cute is not None:
            self._cute.aim(device)

    def do_compile(
        self,
        devices: list[dict[str, Any]],
        init: Any,
        inputs: list[dict[str, Any]],
        sample_seconds: float,
    ) -> dict[str, Any]:
        """Call the model on tensors without memory, and compile what it launches for each device."""
        answers = []
        for device in devices:
            pretend(device)
            self._aim(device)
            if self._cute is not None:
                # What it compiled for another architecture may be kept in its globals.
                self._execute()
            answers.append(self._compiled(init, inputs, sample_seconds))
            sample_seconds = 0.0  # bounds are the same for all
        return {"answers": answers}

    def _compiled(
        self, init: Any, inputs: list[dict[str, Any]], sample_seconds: float
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        with self._session.compiling(sample_seconds=sample_seconds):
            try:
                with FakeTensorMode(allow_non_fake_inputs=True):
                    model = self._build(*decode(init))
                    # What a constructor launches is no part of a call.
                    self._session.kernels.clear()
                    self._session.natives.clear()
                    model(*(_absent(value) for value in inputs))
            except BaseException as error:  # noqa: BLE001 - the candidate may raise anything
                answer = {"raised": _described(error)}
        return {**answer, **self._found()}

    def do_adapt(self, device: dict[str, Any]) -> dict[str, Any]:
        """Call the loaded model on the small inputs, and compile what it launches."""
        session = self._session
        self._aim(device)
        answer: dict[str, Any] = {}
        with session.compiling(sample_seconds=0.0):
            try:
                self._model(*self._arena.inputs)
            except BaseException as error:  # noqa: BLE001 - the candidate may raise anything
                answer = {"raised": _described(error)}
        return {**answer, **self._found()}

    def _found(self) -> dict[str, Any]:
        session = self._session
        return {
            "kernels": list(session.kernels.values()),
            "natives": list(session.natives.values()),
            "faults": [[fault.kind, str(fault)] for fault in session.faults],
            "notes": list(dict.fromkeys(session.notes)),
        }

    def do_load(
        self,
        source: str,
        prebuilt: dict[str, str],
        seed: int,
        init: Any,
        layout: dict[str, Any],
        packing: bool = False,
    ) -> dict[str, Any]:
        """Construct the model for the small inputs; the file was executed before."""
        del source, prebuilt
        keep_freed_memory()
        self._arena = Arena(self._arena_fd, layout)
        arguments = decode(init)
        torch.manual_seed(seed)
        # A constructor may pack its parameters with a kernel.
        with self._session.interpreting(self._seconds):
            if packing:
                model = construct(lambda: self._build(*arguments), self._arena.state, seed)
            else:
                model = self._build(*arguments)
        self._model = model
        state = self._model.state_dict() if isinstance(self._model, torch.nn.Module) else {}
        return {"state": {name: [list(x.shape), str(x.dtype)] for name, x in state.items()}}

    def do_limit(self, seconds: float, device: dict[str, Any]) -> dict[str, Any]:
        """Bound the seconds of one call in the interpreter, which computes as `device` does."""
        self._aim(device)
        self._seconds = seconds
        return {}

    def do_call(self, hold: bool) -> dict[str, Any]:
        """Interpret one call on poisoned memory, and copy what it returns into the arena."""
        answer = self._watched(lambda: self._called(hold))
        for output in answer.get("outputs", ()):
            if output.get("device") == "cuda":
                output["device"] = "cpu"  # where it is, whatever it says of itself
        return answer

    def _called(self, hold: bool) -> dict[str, Any]:
        keep_freed_memory(_POISON)
        try:
            result = self._model(*self._arena.inputs)
        finally:
            keep_freed_memory(0)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        fits = len(outputs) == len(self._arena.outputs) and all(
            isinstance(value, torch.Tensor) and value.shape == slot.shape
            for value, slot in zip(outputs, self._arena.outputs, strict=True)
        )
        answer = {**described(result), "copied": fits}
        if fits:
            self._copy(outputs)
        self._held = outputs if hold else []
        return answer

    def do_again(self) -> dict[str, Any]:
        """Interpret a call whose answer is not looked at, keeping the held outputs alive."""

        def again() -> dict[str, Any]:
            self._model(*self._arena.inputs)
            return {}

        return self._watched(again)

    def do_recopy(self) -> dict[str, Any]:
        """Copy the outputs of the call before the last again: they must not have changed."""
        self._copy(self._held)
        self._held = []
        return {}

    def _copy(self, outputs: list[torch.Tensor]) -> None:
        for slot, value in zip(self._arena.outputs, outputs, strict=True):
            slot.copy_(value)

    def _watched(self, call: Any) -> dict[str, Any]:
        session = self._session
        with session.interpreting(self._seconds):
            try:
                answer: dict[str, Any] = call()
            except BaseException as error:  # noqa: BLE001 - the candidate may raise anything
                answer = {"raised": _described(error)}
            if session.faults:
                # Even where the candidate caught it.
                answer = {"raised": _described(session.faults[0])}
        return answer


def _absent(value: dict[str, Any]) -> Any:
    if "value" in value:
        return value["value"]
    return torch.empty_strided(
        tuple(value["shape"]), tuple(value["strides"]), dtype=_DTYPES[value["dtype"]]
    )


def _described(error: BaseException) -> dict[str, str]:
    kind = error.kind if isinstance(error, KernelFault) else ""
    return {**describe(error), "fault": kind}
