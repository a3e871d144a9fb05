"""Stands in for a GPU's driver: Triton compiles for the architecture that it names, and loads nothing."""

from __future__ import annotations

from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

# Programs that ask for a compiled kernel's registers before launching it choose a grid by them.
_REGISTERS = 64


class AbsentDevice(DriverBase):  # type: ignore[misc]  # Triton has no types
    """The driver of a device that is not here.

    Args:
        architecture: from `Architecture.values`.
    """

    def __init__(self, architecture: dict[str, Any], number: int) -> None:
        self.architecture = architecture
        self.number = number  # Triton keeps what it compiled by the device's number
        self.utils = _Utilities(architecture)
        self.launcher_cls = _no_launcher

    @classmethod
    def is_active(cls) -> bool:
        """Say yes: it was chosen."""
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the type as it is: no launcher is compiled."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """Return what to compile for."""
        name = str(self.architecture["name"])
        arch: int | str = int(name[3:]) if name.startswith("sm_") else name
        return GPUTarget(self.architecture["backend"], arch, self.architecture["warp"])

    def get_current_device(self) -> int:
        """Return its number."""
        return self.number

    def set_current_device(self, device: int) -> None:
        """Ignore: there is one."""

    def get_current_stream(self, device: int | None = None) -> int:  # noqa: ARG002 - Triton's signature
        """Return the default stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:  # noqa: ARG002
        """Return the capability as torch would."""
        return capability(self.architecture)

    def get_active_torch_device(self) -> torch.device:
        """Return the device that programs name."""
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return torch's module for the device."""
        return torch.cuda

    def get_benchmarker(self) -> Any:
        """Return a clock that has no time: configurations are told apart by what they need."""
        return lambda _, quantiles=None, **__: [1.0] * len(quantiles) if quantiles else 1.0

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Return something to clear."""
        return torch.empty(1)

    def clear_cache(self, cache: Any) -> None:
        """Do nothing."""


class _Utilities:
    def __init__(self, architecture: dict[str, Any]) -> None:
        self._architecture = architecture

    def get_device_properties(self, device: int) -> dict[str, int]:  # noqa: ARG002 - Triton's signature
        limits = self._architecture["limits"]
        return {
            "max_shared_mem": limits["shared_memory_per_block"],
            "max_num_regs": limits.get("registers_per_sm", 65536),
            "multiprocessor_count": self._architecture["units"],
            "warpSize": self._architecture["warp"],
            "sm_clock_rate": 1,
            "mem_clock_rate": 1,
            "mem_bus_width": 1,
        }

    def load_binary(self, *_: Any) -> tuple[int, int, int, int, int]:
        return 1, 1, _REGISTERS, 0, self._architecture["limits"].get("threads_per_block", 1024)

    def unload_module(self, module: int) -> None:
        pass


def _no_launcher(*_: Any) -> Any:
    def launch(*_: Any, **__: Any) -> None:
        raise RuntimeError("a dry run launches nothing")

    return launch


def capability(architecture: dict[str, Any]) -> tuple[int, int]:
    """Return (major, minor) as torch reports them: (9, 0) for sm_90, (9, 4) for gfx942."""
    name = str(architecture["name"])
    if name.startswith("sm_"):
        return divmod(int(name[3:]), 10)
    return int(name[3]), int(name[4], 16)


def install(architecture: dict[str, Any], number: int) -> None:
    """Make it the device that Triton sees."""
    triton.runtime.driver.set_active(AbsentDevice(architecture, number))
