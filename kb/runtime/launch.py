"""Launches CUDA kernels on torch's stream through NVIDIA's driver, by ctypes.

Needs nothing but the standard library and torch, so that a file that uses it can carry a copy.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

from kb.runtime.signature import Parameter, as_plain, matching, natural_offsets, packed

_INVALID_CONTEXT = 201
_HINTS = {209: ": it was compiled for another architecture"}
# CUfunction_attribute
_RESOURCES = {"registers": 4, "local_bytes": 3, "shared_bytes": 1, "max_threads": 0}
_DYNAMIC_SHARED, _LARGE_CLUSTERS = 8, 14
_FREE_SHARED = 48 << 10  # bytes of shared memory that need no asking, a kernel's own among them
_PORTABLE_CLUSTER = 8  # blocks that every device with clusters allows
_COOPERATIVE, _CLUSTER, _OVERLAP = 2, 4, 6  # CUlaunchAttributeID
_BINARY_VERSION, _FIRST_TO_OVERLAP = 6, 90  # CUfunction_attribute; architecture
_ATTRIBUTE_WORDS = 18  # CUlaunchAttribute: its number, padded to 8 bytes, then 64 bytes of value
_NUMBERS = frozenset({int, float, bool})
_loaded: list[ctypes.CDLL] = []


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid_x", ctypes.c_uint), ("grid_y", ctypes.c_uint), ("grid_z", ctypes.c_uint),
        ("block_x", ctypes.c_uint), ("block_y", ctypes.c_uint), ("block_z", ctypes.c_uint),
        ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )  # fmt: skip


class Launcher:
    """Launches one kernel on one device; what is the same from call to call is kept ready.

    Args:
        name: of the kernel, for messages.
        function: its handle.
        declared: its parameters as the source says, one entry a declaration.
    """

    def __init__(
        self,
        name: str,
        function: ctypes.c_void_p,
        declared: list[tuple[Parameter, ...]],
        device: int,
    ) -> None:
        import torch

        self._name, self._device, self._function = name, device, function
        self._tensor = torch.Tensor
        self._stream_of = torch._C._cuda_getCurrentRawStream
        self._driver = driver()
        self._launch = self._driver.cuLaunchKernelEx
        self._known, offsets = self._layout(declared)
        sizes = [size for _, size in self._spans() or ()]
        self._parameters = (
            tuple(one.of_size(size) for one, size in zip(self._known, sizes, strict=True))
            if sizes
            else self._known
        )
        self._pointers = tuple(parameter.pointer for parameter in self._parameters)
        layout = packed(self._parameters, offsets)
        self._pack = layout.pack_into
        self._config = _Config()
        self._attributes = (ctypes.c_uint * (3 * _ATTRIBUTE_WORDS))()
        self._configured: Any = None
        self._stream = -1
        self._shared = _FREE_SHARED - self._attribute(_RESOURCES["shared_bytes"])
        self._arguments = ctypes.create_string_buffer(max(layout.size, 1))
        self._size = ctypes.c_size_t(layout.size)
        # {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, _END}
        self._extra = (ctypes.c_void_p * 5)(
            1, ctypes.addressof(self._arguments), 2, ctypes.addressof(self._size), 0
        )
        self._call = (ctypes.byref(self._config), function, None, self._extra)
        self._lock = threading.Lock()  # every thread that launches this kernel shares the buffers

    def launch(self, shape: Any, args: tuple[Any, ...]) -> None:
        """Launch it: `shape` is grid, block, shared bytes, cluster, cooperative and overlap.

        Raises:
            TypeError: an argument does not fit.
            RuntimeError: the driver refuses.
        """
        tensor, values = self._tensor, []
        if len(args) != len(self._pointers):
            self._misfit(args)
        for value, pointer in zip(args, self._pointers):  # noqa: B905 - as long: seen above
            kind = type(value)
            if kind is tensor or (kind not in _NUMBERS and isinstance(value, tensor)):
                if not (pointer and value.is_cuda):
                    self._misfit(args)
                values.append(value.data_ptr())
            else:
                values.append(value if kind in _NUMBERS else as_plain(value))
        stream = self._stream_of(self._device)
        with self._lock:
            if shape != self._configured:
                self._configure(*shape)
            if stream != self._stream:
                self._config.stream = self._stream = stream
            try:
                self._pack(self._arguments, 0, *values)
            except (struct.error, OverflowError, TypeError):
                self._pack(self._arguments, 0, *self._fit(args))
            status = self._launch(*self._call)
            if status == _INVALID_CONTEXT:  # a thread that has not used the device yet
                make_current(self._device)
                status = self._launch(*self._call)
        if status:
            check(
                status,
                f"launching {self._name}, (grid, block, shared, cluster, cooperative, overlap) = {shape}",
            )

    def resources(self) -> dict[str, int]:
        """Return what a thread and a block of it take."""
        return {name: self._attribute(number) for name, number in _RESOURCES.items()}

    def resident(self, block: int, shared: int) -> int:
        """Return how many blocks a multiprocessor holds."""
        self._allow_shared(shared)
        found = ctypes.c_int()
        status = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(found), self._function, block, ctypes.c_size_t(shared)
        )
        check(status, f"the occupancy of {self._name}")
        return found.value

    def _attribute(self, number: int) -> int:
        found = ctypes.c_int()
        status = self._driver.cuFuncGetAttribute(ctypes.byref(found), number, self._function)
        check(status, f"the resources of {self._name}")
        return found.value

    def _layout(
        self, declared: list[tuple[Parameter, ...]]
    ) -> tuple[tuple[Parameter, ...], list[int]]:
        """Return the parameters and where each lies; the driver's word counts before the source's."""
        spans = self._spans()
        if spans is not None:
            return matching(declared, [size for _, size in spans]), [at for at, _ in spans]
        if len(declared) != 1 or not all(parameter.code for parameter in declared[0]):
            raise RuntimeError(
                f"load_cuda: the signature of {self._name} was not understood and this driver cannot tell it: "
                "use pointers and plain number types, or a driver of CUDA 12.4 or later"
            )
        return declared[0], natural_offsets(declared[0])

    def _spans(self) -> list[tuple[int, int]] | None:
        """Return offset and size of each parameter, None from a driver that does not tell."""
        if not hasattr(self._driver, "cuFuncGetParamInfo"):  # before CUDA 12.4
            return None
        spans: list[tuple[int, int]] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        places = ctypes.byref(offset), ctypes.byref(size)
        while not self._driver.cuFuncGetParamInfo(
            self._function, ctypes.c_size_t(len(spans)), *places
        ):
            spans.append((offset.value, size.value))
        return spans

    def _configure(
        self, grid: Any, block: Any, shared: int, cluster: Any, cooperative: bool, overlap: bool
    ) -> None:
        self._configured = None
        config, words = self._config, self._attributes
        config.grid_x, config.grid_y, config.grid_z = _three(grid)
        config.block_x, config.block_y, config.block_z = _three(block)
        self._allow_shared(shared)
        config.shared, config.count = shared, 0
        config.attributes = ctypes.addressof(words)
        if cluster is not None:
            x, y, z = _three(cluster)
            words[0], words[2], words[3], words[4] = _CLUSTER, x, y, z
            if x * y * z > _PORTABLE_CLUSTER:
                status = self._driver.cuFuncSetAttribute(self._function, _LARGE_CLUSTERS, 1)
                check(status, f"allowing clusters of {x * y * z} blocks for {self._name}")
            config.count = 1
        if cooperative:
            at = _ATTRIBUTE_WORDS * config.count
            words[at], words[at + 2] = _COOPERATIVE, 1
            config.count += 1
        if overlap and self._attribute(_BINARY_VERSION) >= _FIRST_TO_OVERLAP:
            at = _ATTRIBUTE_WORDS * config.count
            words[at], words[at + 2] = _OVERLAP, 1
            config.count += 1
        shape = (grid, block, shared, cluster, cooperative, overlap)
        # A list may be changed by its owner while it is kept here.
        if not any(isinstance(part, list) for part in shape):
            self._configured = shape

    def _allow_shared(self, shared: int) -> None:
        if shared > self._shared:
            status = self._driver.cuFuncSetAttribute(self._function, _DYNAMIC_SHARED, shared)
            check(status, f"asking for {shared} bytes of dynamic shared memory for {self._name}")
            self._shared = shared

    def _fit(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the values of arguments that are not all plain.

        Raises:
            TypeError: one does not fit the kernel's signature.
        """
        values = []
        for parameter, known, value in zip(self._parameters, self._known, args, strict=True):
            plain = (
                value.data_ptr() if isinstance(value, self._tensor) else parameter.fit(value, known)
            )
            try:
                struct.pack(f"<{parameter.code}", plain)
            except (struct.error, OverflowError, TypeError):
                self._misfit(args)
            values.append(plain)
        return values

    def _misfit(self, args: tuple[Any, ...]) -> None:
        """Say which argument does not fit.

        Raises:
            TypeError: always.
        """
        said = ", ".join(parameter.text for parameter in self._parameters)
        if len(args) != len(self._parameters):
            raise TypeError(
                f"{self._name} takes {len(self._parameters)} arguments ({said}), {len(args)} were given"
            )
        for number, (parameter, known, value) in enumerate(
            zip(self._parameters, self._known, args, strict=True), start=1
        ):
            where = f"{self._name}: argument {number} ({parameter.text})"
            if isinstance(value, self._tensor):
                if not parameter.pointer:
                    raise TypeError(f"{where}: expected a number, found a tensor: pass its .item()")
                if not value.is_cuda:
                    raise TypeError(
                        f"{where}: expected a tensor on the GPU, found one on {value.device}"
                    )
                continue
            try:
                struct.pack(f"<{parameter.code}", parameter.fit(value, known))
            except (struct.error, OverflowError, TypeError) as error:
                hint = "" if known.code else ": its type is not known here, pass a ctypes value"
                raise TypeError(
                    f"{where}: {value!r} of type {type(value).__name__} does not fit ({error}){hint}"
                ) from None
        raise TypeError(f"{self._name}: the arguments do not fit ({said})")


def _three(sides: Any) -> tuple[int, int, int]:
    if isinstance(sides, int):
        return sides, 1, 1
    x, y, z = (*sides, 1, 1)[:3]
    return x, y, z


def driver() -> ctypes.CDLL:
    """Return NVIDIA's driver.

    Raises:
        RuntimeError: this machine has none.
    """
    if not _loaded:
        try:
            _loaded.append(ctypes.CDLL("libcuda.so.1"))
        except OSError as error:
            raise RuntimeError(
                f"load_cuda: NVIDIA's driver is not on this machine: {error}"
            ) from error
    return _loaded[0]


def make_current(device: int) -> None:
    """Make the context that torch uses on `device` this thread's own."""
    library, handle, context = driver(), ctypes.c_int(), ctypes.c_void_p()
    check(library.cuDeviceGet(ctypes.byref(handle), device), "finding the device")
    check(library.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), "opening the device")
    check(library.cuCtxSetCurrent(context), "opening the device")


def check(status: int, doing: str) -> None:
    """Do nothing where the driver's `status` is success.

    Raises:
        RuntimeError: what the driver says, with what was being done.
    """
    if not status:
        return
    name, said = ctypes.c_char_p(), ctypes.c_char_p()
    driver().cuGetErrorName(status, ctypes.byref(name))
    driver().cuGetErrorString(status, ctypes.byref(said))
    told = f"{(name.value or b'?').decode()}: {(said.value or b'').decode()}"
    raise RuntimeError(f"load_cuda: {doing}: {told}{_HINTS.get(status, '')}")
