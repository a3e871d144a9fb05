"""NVIDIA devices: what the driver says of one, which record describes it, and whether it drifted.

All of it comes from the driver's own libraries (``libcuda``, ``libnvidia-ml``) through ctypes, so
that a process may look at the device before torch is there, and no context is made by looking.
For AMD there is nothing here yet but the records: no figure of one was ever read from a driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

# CUdevice_attribute, from cuda.h.
_ATTRIBUTES = {
    "threads_per_block": 1,
    "warp": 10,
    "sms": 16,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "l2": 38,
    "threads_per_sm": 39,
    "major": 75,
    "minor": 76,
    "shared_per_sm": 81,
    "registers_per_sm": 82,
    "shared_per_block": 97,
    "blocks_per_sm": 106,
    "clock_khz": 13,
}
_SM_CLOCK, _MEMORY_CLOCK = 1, 2  # nvmlClockType_t
# nvmlClocksEventReasons, from nvml.h. Idling and the user's own limits are no sign of trouble.
_REASONS = {
    0x1: "idle",
    0x2: "the application's clock setting",
    0x4: "the power limit",
    0x8: "a hardware slowdown",
    0x10: "a synchronised boost group",
    0x20: "the temperature (software)",
    0x40: "the temperature (hardware)",
    0x80: "the power brake",
    0x100: "the display's clock setting",
}
_TROUBLE = 0x8 | 0x20 | 0x40 | 0x80
_POWER = 0x4
_DRIFT = 0.03  # of the clock: the clocks of an idle H200 under load repeat within 1 %


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What the driver says of one device. SI units; None where it does not say.

    Attributes:
        index: in CUDA's order, which is not always that of `nvidia-smi`.
        capability: compute capability, ``(9, 0)`` for Hopper.
        driver: version of the kernel's driver; `cuda`: the newest CUDA that it runs.
        clock, memory_clock: Hz, the highest that the device can take.
    """

    index: int
    name: str
    uuid: str
    capability: tuple[int, int]
    sms: int
    memory: int
    l2: int
    shared_per_sm: int
    shared_per_block: int
    registers_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    threads_per_block: int
    bus_bits: int | None
    clock: float | None
    memory_clock: float | None
    driver: str
    cuda: str
    power_limit: float | None
    state: ClockState | None

    @property
    def architecture(self) -> str:
        """The compiler's name of it: ``sm_90``."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def bandwidth(self) -> float | None:
        """Bytes/s by bus width and clock, two transfers a cycle; None where the driver is mute."""
        if not self.bus_bits or not self.memory_clock:
            return None
        return 2 * self.memory_clock * self.bus_bits / 8

    @property
    def limits(self) -> dict[str, int]:
        """What occupancy follows from, as target records name it."""
        return {
            "registers_per_sm": self.registers_per_sm,
            "shared_memory_per_sm": self.shared_per_sm,
            "shared_memory_per_block": self.shared_per_block,
            "threads_per_sm": self.threads_per_sm,
            "warps_per_sm": self.threads_per_sm // 32,
            "blocks_per_sm": self.blocks_per_sm,
            "threads_per_block": self.threads_per_block,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """How a device runs at one moment.

    Attributes:
        sm_clock, memory_clock: Hz.
        temperature: degrees Celsius.
        power: watts.
        reasons: what holds its clock down, in words.
        trouble: one of them is heat, a slowdown or a brake.
        at_power_limit: the power limit holds it down, as it does under most heavy products.
    """

    sm_clock: float
    memory_clock: float
    temperature: float | None
    power: float | None
    reasons: tuple[str, ...]
    trouble: bool
    at_power_limit: bool


def read_device(index: int = 0) -> DeviceFacts | None:
    """Return what the driver says of a device, None where there is no NVIDIA device or driver.

    Args:
        index: in CUDA's order, as `CUDA_VISIBLE_DEVICES` leaves it.
    """
    driver = _cuda()
    if driver is None:
        return None
    device = ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return None
    values = {name: _attribute(driver, device, number) for name, number in _ATTRIBUTES.items()}
    name = ctypes.create_string_buffer(128)
    driver.cuDeviceGetName(name, 128, device)
    total = ctypes.c_size_t()
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    version = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    uuid = _uuid(driver, device)
    management = _management()
    handle = _handle(uuid)
    return DeviceFacts(
        index=index,
        name=name.value.decode(errors="replace"),
        uuid=uuid,
        capability=(values["major"], values["minor"]),
        sms=values["sms"],
        memory=total.value,
        l2=values["l2"],
        shared_per_sm=values["shared_per_sm"],
        shared_per_block=values["shared_per_block"],
        registers_per_sm=values["registers_per_sm"],
        threads_per_sm=values["threads_per_sm"],
        blocks_per_sm=values["blocks_per_sm"],
        threads_per_block=values["threads_per_block"],
        bus_bits=values["bus_bits"] or None,
        clock=_highest(handle, _SM_CLOCK) or values["clock_khz"] * 1e3 or None,
        memory_clock=_highest(handle, _MEMORY_CLOCK) or values["memory_clock_khz"] * 1e3 or None,
        driver=_driver_version(management),
        cuda=f"{version.value // 1000}.{version.value % 1000 // 10}",
        power_limit=_milli(handle, "nvmlDeviceGetEnforcedPowerLimit"),
        state=clock_state(uuid),
    )


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, in CUDA's order, as ``CUDA_VISIBLE_DEVICES`` names them.

    By what they are, not by number: a process that already has that variable counts only what it leaves.
    """
    found: list[str] = []
    while (facts := read_device(len(found))) is not None:
        handle = _named_handle(f"MIG-{facts.uuid}")  # a part of a GPU
        found.append(f"{'GPU' if handle is None else 'MIG'}-{facts.uuid}")
    return found


def clock_state(uuid: str) -> ClockState | None:
    """Return how the device with this UUID runs now, None where the driver does not say."""
    management, handle = _management(), _handle(uuid)
    if management is None or handle is None:
        return None
    clocks = []
    for kind in (_SM_CLOCK, _MEMORY_CLOCK):
        value = ctypes.c_uint()
        if management.nvmlDeviceGetClockInfo(handle, kind, ctypes.byref(value)) != 0:
            return None
        clocks.append(value.value * 1e6)
    degrees = ctypes.c_uint()
    known = management.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(degrees)) == 0
    mask = ctypes.c_ulonglong()
    management.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(mask))
    return ClockState(
        sm_clock=clocks[0],
        memory_clock=clocks[1],
        temperature=float(degrees.value) if known else None,
        power=_milli(handle, "nvmlDeviceGetPowerUsage"),
        reasons=tuple(text for bit, text in _REASONS.items() if mask.value & bit),
        trouble=bool(mask.value & _TROUBLE),
        at_power_limit=bool(mask.value & _POWER),
    )


class Watch:
    """Samples a device's clock during a session and says afterwards whether it drifted.

    Sample it while the device works: an idle one lowers its clock within a second.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self.states: list[ClockState] = []

    def sample(self) -> ClockState | None:
        """Take one sample, some 50 us; None where the driver does not say."""
        state = clock_state(self._uuid)
        if state is not None:
            self.states.append(state)
        return state

    def figures(self) -> dict[str, float]:
        """Return the lowest clock and the highest temperature, and ``drifted`` where it did; nothing where the driver is silent."""
        if not self.states:
            return {}
        found = {"sm_clock": min(state.sm_clock for state in self.states)}
        hottest = [state.temperature for state in self.states if state.temperature is not None]
        if hottest:
            found["temperature"] = max(hottest)
        if self.verdict() is not None:
            found["drifted"] = 1.0
        return found

    def verdict(self) -> str | None:
        """Return one line where the device drifted, None where it held or nothing was seen."""
        return drift(self.states)


def drift(states: Sequence[ClockState]) -> str | None:
    """Say how a device changed over a session, None where it held.

    It drifted where heat, a slowdown or a brake held it down, where its memory changed its clock, or
    where the SM clock at the end is 3 % or more from that at the beginning. Idle samples count for
    nothing: a device between two calls lowers its clock at once.
    """
    busy = [state for state in states if "idle" not in state.reasons]
    if len(busy) < 2:
        return None
    troubled = [reason for state in busy if state.trouble for reason in state.reasons]
    if troubled:
        return f"the device was slowed down by {', '.join(dict.fromkeys(troubled))}: its times are not its best"
    first, last = busy[0], busy[-1]
    if first.memory_clock != last.memory_clock:
        return (
            f"the memory's clock went from {first.memory_clock / 1e6:.0f} to "
            f"{last.memory_clock / 1e6:.0f} MHz during the session: measure again"
        )
    change = last.sm_clock / first.sm_clock - 1
    if abs(change) < _DRIFT:
        return None
    why = " under its power limit" if last.at_power_limit else ""
    return (
        f"the SM clock went from {first.sm_clock / 1e6:.0f} to {last.sm_clock / 1e6:.0f} MHz "
        f"({change:+.0%}){why} during the session: ratios hold, since contenders take turns, seconds do not"
    )


def torch_trouble() -> str | None:
    """Return why torch cannot use the device, None where it can."""
    import torch

    if torch.cuda.is_available():
        return None
    built = torch.version.cuda
    told = f"is built for CUDA {built} and cannot use this driver" if built else "has no CUDA"
    return f"torch {torch.__version__} {told}"


@cache
def _cuda() -> ctypes.CDLL | None:
    """Return the driver's library, ready; None where it is missing or has no device."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if library.cuInit(0) == 0 else None


@cache
def _management() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def _handle(uuid: str) -> ctypes.c_void_p | None:
    return _named_handle(f"GPU-{uuid}") or _named_handle(f"MIG-{uuid}")


@cache
def _named_handle(name: str) -> ctypes.c_void_p | None:
    """Return the management library's handle: by UUID, since it numbers devices in its own order."""
    management = _management()
    handle = ctypes.c_void_p()
    if management is None:
        return None
    found = management.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)) == 0
    return handle if found else None


def _uuid(driver: ctypes.CDLL, device: ctypes.c_int) -> str:
    raw = (ctypes.c_ubyte * 16)()
    driver.cuDeviceGetUuid_v2(raw, device)
    text = bytes(raw).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _attribute(driver: ctypes.CDLL, device: ctypes.c_int, number: int) -> int:
    value = ctypes.c_int()
    return (
        value.value if driver.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 else 0
    )


def _highest(handle: ctypes.c_void_p | None, kind: int) -> float | None:
    management = _management()
    if management is None or handle is None:
        return None
    value = ctypes.c_uint()
    found = management.nvmlDeviceGetMaxClockInfo(handle, kind, ctypes.byref(value)) == 0
    return value.value * 1e6 if found and value.value else None


def _milli(handle: ctypes.c_void_p | None, function: str) -> float | None:
    """Return what `function` tells in thousandths."""
    management = _management()
    if management is None or handle is None:
        return None
    value = ctypes.c_uint()
    return (
        value.value / 1e3
        if getattr(management, function)(handle, ctypes.byref(value)) == 0
        else None
    )


def _driver_version(management: ctypes.CDLL | None) -> str:
    text = ctypes.create_string_buffer(96)
    if management is None or management.nvmlSystemGetDriverVersion(text, 96) != 0:
        return "unknown"
    return text.value.decode(errors="replace")
