"""Has Inductor write Triton for a GPU that is not here: nothing of it is asked, its figures are given.

Inductor asks torch and Triton what the device can do. Their answers are replaced in this process, which
writes code and ends. What is written is what such a device would be given, but for one pass: replacing
attention written out in parts by the library's operator needs a torch with CUDA, and is left out.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch._prims_common import suggest_memory_format
from torch._subclasses import fake_tensor


@contextmanager
def fake_cuda(figures: Mapping[str, Any]) -> Iterator[None]:
    """Answer for a GPU.

    Args:
        figures: ``capability`` (two numbers), ``units``, ``shared`` (bytes a block may have), ``warp`` (threads) and ``name``.
    """
    major, minor = figures["capability"]
    properties = types.SimpleNamespace(
        name=figures["name"], major=major, minor=minor, total_memory=1 << 36,
        multi_processor_count=figures["units"], regs_per_multiprocessor=65536, warp_size=figures["warp"],
        max_threads_per_multi_processor=2048, max_threads_per_block=1024, gcnArchName="",
        shared_memory_per_block=49152, shared_memory_per_block_optin=figures["shared"],
        L2_cache_size=1 << 25,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda _=None: properties,
        "get_device_capability": lambda _=None: (major, minor),
        "get_device_name": lambda _=None: properties.name,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda *_: None,
        "synchronize": lambda *_: None,
        "_lazy_init": lambda: None,
        "_exchange_device": lambda *_: 0,
        "_maybe_exchange_device": lambda *_: 0,
    }
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        if torch.version.cuda and hasattr(torch._C, "_ensureCUDADeviceGuardSet"):
            torch._C._ensureCUDADeviceGuardSet()  # such a build then asks no device
        else:  # these methods ask the device before they dispatch; the operators do not
            for name, method in _METHODS.items():
                stack.enter_context(mock.patch.object(torch.Tensor, name, method))
        stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context"))
        place = "_conv_determine_backend_memory_format"
        stack.enter_context(mock.patch.object(torch._C, place, _layout))
        _answer_dynamo(properties, 10 * major + minor)
        _answer_triton(10 * major + minor)
        _leave_out(stack)
        _fold_constants_here(stack)
        yield


def _fold_constants_here(stack: ExitStack) -> None:
    """Compute on the processor what Inductor computes while it compiles, to find tensors that hold one value."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder
    from torch.utils._python_dispatch import TorchDispatchMode

    class Here(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            given = dict(kwargs or {})
            if _is_cuda(given.get("device")):
                given["device"] = torch.device("cpu")
            args = tuple(torch.device("cpu") if _is_cuda(one) else one for one in args)
            return func(*args, **given)

    for name in ("__init__", "run"):
        whole = getattr(Folder, name)

        def here(*given: Any, whole: Any = whole, **more: Any) -> Any:
            with Here():  # type: ignore[no-untyped-call]
                return whole(*given, **more)

        stack.enter_context(mock.patch.object(Folder, name, here))


def _is_cuda(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


def _copied(here: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    written: torch.Tensor = torch.ops.aten.copy_.default(here, source, non_blocking)
    return written


def _contiguous(
    here: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
) -> torch.Tensor:
    made: torch.Tensor = torch.ops.aten.contiguous.default(here, memory_format=memory_format)
    return made


def _taken(here: torch.Tensor, asked: Any) -> torch.Tensor:
    """Return ``here[asked]`` as slices, places and new axes, and then by tensors."""
    listed = list(asked) if isinstance(asked, tuple) else [asked]
    used = sum(one is not None and one is not Ellipsis for one in listed)
    whole = [slice(None)] * (here.dim() - used)
    at = next((n for n, one in enumerate(listed) if one is Ellipsis), len(listed))
    listed[at : at + 1] = whole
    axis, tensors = 0, {}
    for one in listed:
        if isinstance(one, slice):
            if one != slice(None):
                step = 1 if one.step is None else one.step
                here = torch.ops.aten.slice.Tensor(here, axis, one.start, one.stop, step)
        elif one is None:
            here = torch.ops.aten.unsqueeze.default(here, axis)
        elif isinstance(one, (torch.Tensor, list)):
            tensors[axis] = one if isinstance(one, torch.Tensor) else _places(one, here.device)
            if tensors[axis].dim() == 0 or tensors[axis].dtype in (torch.bool, torch.uint8):
                raise NotImplementedError("an index by a mask or by a tensor that is one number")
        elif isinstance(one, bool):
            raise NotImplementedError("a tensor that is indexed by a truth value")
        else:
            here = torch.ops.aten.select.int(here, axis, one)
            continue
        axis += 1
    if tensors:
        places = [tensors.get(n) for n in range(max(tensors) + 1)]
        here = torch.ops.aten.index.Tensor(here, places)
    elif all(one == slice(None) for one in listed):
        here = torch.ops.aten.alias.default(here)
    return here


def _put(here: torch.Tensor, asked: Any, value: Any) -> None:
    """Do ``here[asked] = value`` where slices and places are asked for."""
    listed = asked if isinstance(asked, tuple) else (asked,)
    if any(isinstance(one, (torch.Tensor, list)) for one in listed):
        raise NotImplementedError("a tensor that is written to by an index of tensors")
    place = _taken(here, asked)
    if isinstance(value, torch.Tensor):
        torch.ops.aten.copy_.default(place, value)
    else:
        torch.ops.aten.fill_.Scalar(place, value)


def _inverted(here: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = torch.ops.aten.bitwise_not.default(here)
    return made


def _places(listed: list[Any], device: torch.device) -> torch.Tensor:
    """Return a list of places as a tensor beside the one that it is asked of."""
    return torch.tensor(listed, dtype=None if listed else torch.int64).to(device)


_METHODS: dict[str, Any] = {
    "copy_": _copied,
    "contiguous": _contiguous,
    "__getitem__": _taken,
    "__setitem__": _put,
    "__invert__": _inverted,
}


def _layout(source: torch.Tensor, weight: torch.Tensor, _backend: object) -> torch.memory_format:
    """Return the layout in which cuDNN leaves a convolution's result, which a torch without it does not know.

    On an H200 (torch 2.11) it was so of 512 convolutions: of two and three axes, plain, grouped, depthwise and transposed,
    in float32, with and without TF32, and in float16. Tests marked `gpu` ask some of them.
    """
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    formats = (suggest_memory_format(source), suggest_memory_format(weight))
    return last if last is not None and last in formats else torch.contiguous_format


def _answer_dynamo(properties: Any, capability: int) -> None:
    """Register the device with Dynamo and Inductor."""
    from torch._dynamo import device_interface

    asked: dict[str, Any] = {
        "set_device": staticmethod(lambda _: None),
        "current_device": staticmethod(lambda: 0),
        "get_device_properties": staticmethod(lambda _=None: properties),
    }
    answers: dict[str, Any] = {
        **asked,
        "is_available": staticmethod(lambda: True),
        "device_count": staticmethod(lambda: 1),
        "maybe_exchange_device": staticmethod(lambda _: 0),
        "exchange_device": staticmethod(lambda _: 0),
        "get_compute_capability": staticmethod(lambda _=None: capability),
        "is_triton_capable": staticmethod(lambda _=None: True),
        "raise_if_triton_unavailable": staticmethod(lambda _=None: None),
        "is_bf16_supported": staticmethod(lambda including_emulation=False: True),  # noqa: ARG005
        "get_raw_stream": staticmethod(lambda _: 0),
        "synchronize": staticmethod(lambda _=None: None),
        "Worker": type("Worker", (), asked),
    }
    made: Any = type("AbsentDevice", (device_interface.DeviceInterface,), answers)
    device_interface.init_device_reg()
    for name in ("cuda", "cuda:0"):
        device_interface.register_interface_for_device(name, made)


def _answer_triton(architecture: int) -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    class AbsentGpuDriver:
        """The driver of a device that is not here; nothing is launched."""

        get_current_target = staticmethod(lambda: GPUTarget("cuda", architecture, 32))
        get_current_device = staticmethod(lambda: 0)
        get_active_torch_device = staticmethod(lambda: torch.device("cuda", 0))
        get_device_interface = staticmethod(lambda: torch.cuda)
        get_benchmarker = staticmethod(lambda: None)
        is_active = staticmethod(lambda: True)

    triton.runtime.driver.set_active(AbsentGpuDriver())


def _leave_out(stack: ExitStack) -> None:
    """Leave out the passes that make tensors on the device to learn what they look for."""
    from torch._inductor.fx_passes import joint_graph

    stack.enter_context(mock.patch.object(joint_graph, "lazy_init", return_value=None))
