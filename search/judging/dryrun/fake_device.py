"""Lets a program that asks for a GPU run on the CPU: its tensors say that they are on the device."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from search.judging.dryrun.interpreter.memory import KernelFault
from search.judging.dryrun.stubs.driver import capability

_DEVICE = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_GPU = ("cuda", "hip")


class FakeDevice(TorchFunctionMode):
    """Answers for tensors: they are on the device, and what is moved there stays where it is.

    Args:
        address: where a tensor begins, for tensors that may have no memory.
    """

    def __init__(self, address: Callable[[torch.Tensor], int]) -> None:
        super().__init__()
        self._address = address

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answer a call of a torch function."""
        name = getattr(func, "__name__", "")
        if name == "__get__":
            told = _PROPERTIES.get(getattr(getattr(func, "__self__", None), "__name__", ""))
            if told is not None and func.__self__.__objclass__ is torch._C.TensorBase:
                return told
        if func is torch.Tensor.data_ptr:
            return self._address(args[0])
        if func in _SAME:
            return args[0]
        if func is torch.Tensor.get_device:
            return 0
        named = {key: _moved(value) for key, value in (kwargs or {}).items() if key != "pin_memory"}
        return func(*(_moved(value) for value in args), **named)


_SAME = (torch.Tensor.cuda, torch.Tensor.pin_memory, torch.Tensor.record_stream)
_PROPERTIES: dict[str, Any] = {"is_cuda": True, "device": _DEVICE, "is_cpu": False}


def show_device() -> None:
    """Have tensors without memory say where they are too, in this process for good.

    Their class answers by itself. To torch's own code they stay what they are.
    """
    stock = vars(FakeTensor)["device"].fget
    inside = os.path.dirname(torch.__file__) + os.sep

    def device(self: FakeTensor) -> torch.device:
        if sys._getframe(1).f_code.co_filename.startswith(inside):
            told: torch.device = stock(self)
            return told
        return _DEVICE

    FakeTensor.device = property(device)  # type: ignore[assignment,method-assign]


def _moved(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type in _GPU:
        return _CPU
    if isinstance(value, str) and value.split(":")[0] in _GPU:
        return _CPU
    return value


class _Nothing:
    """A stream, an event or a context that does nothing and says that it is done."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_stream = self.stream_id = self.device_index = 0
        self.device = _DEVICE

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def query(self) -> bool:
        return True

    def elapsed_time(self, *_: Any) -> float:
        return 1.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


class _Graph(_Nothing):
    """A graph: what is captured is launched and so compiled, what is replayed runs on a device only."""

    def replay(self) -> None:
        raise KernelFault("native", "a CUDA graph is replayed on a device only")


def _properties(architecture: Mapping[str, Any], major: int, minor: int) -> types.SimpleNamespace:
    """Return what ``torch.cuda.get_device_properties`` tells of a device."""
    return types.SimpleNamespace(
        name=architecture["device"],
        major=major,
        minor=minor,
        total_memory=architecture["memory"],
        multi_processor_count=architecture["units"],
        warp_size=architecture["warp"],
        regs_per_multiprocessor=architecture["limits"].get("registers_per_sm", 65536),
        max_threads_per_multi_processor=architecture["limits"].get("threads_per_sm", 2048),
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=architecture["limits"]["shared_memory_per_block"],
        shared_memory_per_multiprocessor=architecture["limits"].get(
            "shared_memory_per_sm", architecture["limits"]["shared_memory_per_block"]
        ),
        gcnArchName=architecture["name"],
        L2_cache_size=1 << 25,
    )


def pretend(architecture: Mapping[str, Any]) -> None:
    """Make ``torch.cuda`` answer for a device of this architecture, in this process for good."""
    major, minor = capability(dict(architecture))
    properties = _properties(architecture, major, minor)
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda *_: None,
        "synchronize": lambda *_: None,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (major, minor),
        "get_device_name": lambda *_: architecture["device"],
        "get_arch_list": lambda: [architecture["name"]],
        "is_bf16_supported": lambda *_, **__: True,
        "empty_cache": lambda: None,
        "mem_get_info": lambda *_: (architecture["memory"], architecture["memory"]),
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "reset_peak_memory_stats": lambda *_: None,
        "manual_seed": lambda *_: None,
        "manual_seed_all": lambda *_: None,
        "current_stream": lambda *_: _Nothing(),
        "default_stream": lambda *_: _Nothing(),
        "set_stream": lambda *_: None,
        "stream": _Nothing,
        "Stream": _Nothing,
        "Event": _Nothing,
        "CUDAGraph": _Graph,
        "graph": _Nothing,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: False,
        "device": _Nothing,
        "device_of": _Nothing,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
