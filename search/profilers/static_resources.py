"""What a compiled kernel holds of a compute unit: registers, shared memory, spills, occupancy."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Limit = Literal["registers", "shared memory", "threads", "blocks"]

# Granularities of the hardware's allocation, the same from compute capability 7.0 to 12.0: "CUDA
# Programming Guide, technical specifications per compute capability". AMD: the CDNA 3 ISA manual.
_REGISTERS_A_WARP = 256
_PARTITIONS = 4  # schedulers of an SM, each with a quarter of its registers and warps
_SHARED_STEP = 128
# From compute capability 9.0 on, an object file counts the system's reserve as the block's own.
_RESERVE = 1024
_VGPR_STEP = 8
_LDS_STEP = 512

_PTXAS_NAME = re.compile(r"(?:Compiling entry function|Function properties for) '?([^'\s]+)'?")
_PTXAS_STACK = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_PTXAS_USED = re.compile(r"Used (\d+) registers(.*)")
# "(C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to … for the function 'k'"
_PTXAS_LOSS = re.compile(
    r"\((C\d{2,6})\) Potential Performance Loss: ([\w.,;:'() -]{1,200}?)\.?(?: (?:for|in) the function '([^'\s]+)')?$"
)
_AMD_KERNEL = re.compile(r"^[^\S\n]*\.amdhsa_kernel\s+(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one kernel needs, as its compiler says.

    Attributes:
        name: as in the object file: mangled where the source's language mangles.
        registers: 32-bit registers of a thread (on AMD: vector registers of a lane).
        shared: bytes of shared memory (LDS) of a block that are known at compile time.
        stack: bytes of local memory of a thread: spilled registers, and arrays that are indexed by
            values unknown at compile time.
        spill_stores, spill_loads: bytes of a thread that are spilled; None where the compiler's
            output has only the stack.
        waves: of a SIMD that fit by registers, where the compiler says (AMD).
        losses: why the compiler expects it to be slow, in the compiler's words.
    """

    name: str
    registers: int
    shared: int = 0
    stack: int = 0
    spill_stores: int | None = None
    spill_loads: int | None = None
    waves: int | None = None
    losses: tuple[str, ...] = ()

    @property
    def spill_bytes(self) -> int:
        """Bytes of a thread that went to local memory; the stack where no more is known."""
        if self.spill_stores is None or self.spill_loads is None:
            return self.stack
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How many threads of a kernel reside on a compute unit at once, at most.

    Attributes:
        fraction: of the warps that the unit can hold.
        blocks: resident on one unit; 0 where not even one fits.
        limited_by: what admits no further block; where several tie, all of them.
    """

    fraction: float
    blocks: int
    warps: int
    limited_by: tuple[Limit, ...]


def parse_ptxas(text: str) -> tuple[Resources, ...]:
    """Read what ``ptxas -v`` (or ``nvcc -Xptxas -v``) prints, one entry a kernel.

    Device functions that are called and not inlined appear too: their stack belongs to their
    callers, and they have no register line of their own.
    """
    found: list[Resources] = []
    losses = [
        (m[3], f"{m[2]} (ptxas {m[1]})") for m in map(_PTXAS_LOSS.search, text.splitlines()) if m
    ]
    name, stack, stores, loads = "", 0, 0, 0
    for line in text.splitlines():
        if matched := _PTXAS_NAME.search(line):
            name, stack, stores, loads = matched[1], 0, 0, 0
        elif matched := _PTXAS_STACK.search(line):
            stack, stores, loads = (int(group) for group in matched.groups())
        elif (matched := _PTXAS_USED.search(line)) and name:
            shared = re.search(r"(\d+)(?:\+\d+)? bytes smem", matched[2])
            found.append(
                Resources(
                    name=name,
                    registers=int(matched[1]),
                    shared=int(shared[1]) if shared else 0,
                    stack=stack,
                    spill_stores=stores,
                    spill_loads=loads,
                    losses=tuple(dict.fromkeys(loss for of, loss in losses if of in (None, name))),
                )
            )
    return tuple(found)


def _without_reserve(shared: int, reserved: bool) -> int:
    return max(0, shared - _RESERVE) if reserved else shared


def parse_amd(text: str) -> tuple[Resources, ...]:
    """Read the assembly that LLVM writes for AMD (Triton's ``asm["amdgcn"]``), one entry a kernel.

    The kernel's descriptor has the sizes, the comments that follow it the occupancy by registers.
    """
    kernels = list(_AMD_KERNEL.finditer(text))
    ends = [matched.start() for matched in kernels[1:]] + [len(text)]
    found = []
    for matched, end in zip(kernels, ends, strict=True):
        part = text[matched.start() : end]
        found.append(
            Resources(
                name=matched[1],
                registers=_number(r"; TotalNumVgprs: (\d+)", part)
                or _number(r"; NumVgprs: (\d+)", part)
                or _number(r"\.amdhsa_next_free_vgpr (\d+)", part)
                or 0,
                shared=_number(r"\.amdhsa_group_segment_fixed_size (\d+)", part) or 0,
                stack=_number(r"\.amdhsa_private_segment_fixed_size (\d+)", part) or 0,
                waves=_number(r"; Occupancy: (\d+)", part),
            )
        )
    return tuple(found)


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def parse_cubin(data: bytes) -> tuple[Resources, ...]:
    """Read the resources out of a cubin, where no ``cuobjdump`` is at hand.

    A cubin is a 64-bit ELF file. `.nv.info` holds attributes of each kernel by its symbol: 0x2f the
    registers, 0x12 the least stack, 0x11 the frame; `.nv.shared.<kernel>` has the size of its
    static shared memory.

    Raises:
        ValueError: it is no cubin.
    """
    sections = _sections(data)
    symbols = _symbols(data, sections)
    attributes: dict[str, dict[int, int]] = {}
    info = sections.get(".nv.info")
    if info is not None:
        for attribute, payload in _attributes(data[info.offset : info.offset + info.size]):
            if attribute in {0x2F, 0x11, 0x12} and len(payload) == 8:
                symbol, value = struct.unpack("<II", payload)
                attributes.setdefault(symbols.get(symbol, ""), {})[attribute] = value
    reserved = ".nv.shared.reserved.0" in sections
    found = []
    for title in sections:
        name = title.removeprefix(".text.")
        told = attributes.get(name, {})
        if title == name or 0x2F not in told:
            continue
        shared = sections.get(f".nv.shared.{name}")
        found.append(
            Resources(
                name=name,
                registers=told[0x2F],
                shared=_without_reserve(shared.size if shared else 0, reserved),
                stack=max(told.get(0x12, 0), told.get(0x11, 0)),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    offset: int
    size: int
    link: int


def _sections(data: bytes) -> dict[str, _Section]:
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    try:
        (table,) = struct.unpack_from("<Q", data, 0x28)
        step, count, names = struct.unpack_from("<HHH", data, 0x3A)
        rows = [struct.unpack_from("<IIQQQQII", data, table + step * n) for n in range(count)]
        strings = data[rows[names][4] : rows[names][4] + rows[names][5]]
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged ELF file: {error}") from error
    return {
        _string(strings, row[0]): _Section(offset=row[4], size=row[5], link=row[6]) for row in rows
    }


def _symbols(data: bytes, sections: Mapping[str, _Section]) -> dict[int, str]:
    table = sections.get(".symtab")
    strings = sections.get(".strtab")
    if table is None or strings is None:
        return {}
    names = data[strings.offset : strings.offset + strings.size]
    return {
        number: _string(names, struct.unpack_from("<I", data, table.offset + 24 * number)[0])
        for number in range(table.size // 24)
    }


def _string(table: bytes, start: int) -> str:
    return table[start : table.find(b"\0", start)].decode(errors="replace")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield attribute number and payload; only form 4 carries more than two bytes."""
    place = 0
    while place + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, place)
        place += 4
        if form == 4:
            yield attribute, data[place : place + size]
            place += size


def occupancy(limits: Mapping[str, int], registers: int, shared: int, threads: int) -> Occupancy:
    """Return how many threads of a kernel fit on one compute unit, and what limits it.

    NVIDIA's rule (`cuda_occupancy.h`): registers are given out to a warp in steps of 256 from the
    quarter of the file that its scheduler owns; a block takes its shared memory in steps of 128
    bytes plus a reserve, which is what `shared_memory_per_sm` exceeds `shared_memory_per_block` by.
    AMD's: a SIMD holds as many waves as its 512 registers of a lane divide into.

    Args:
        limits: of the target's record.
        registers: of a thread; 0 where unknown, which then limits nothing.
        shared: bytes of a block, static and dynamic together.
        threads: of a block.

    Raises:
        ValueError: the record has no limits that occupancy follows from.
    """
    if threads < 1:
        raise ValueError("a block has at least one thread")
    if "vector_registers_per_lane" in limits:
        return _amd_occupancy(limits, registers, shared, threads)
    needed = ("registers_per_sm", "shared_memory_per_sm", "warps_per_sm", "blocks_per_sm")
    lacking = [name for name in needed if name not in limits]
    if lacking:
        raise ValueError(f"the target's record has no {', '.join(lacking)}")
    warps = math.ceil(threads / 32)
    block = limits.get("shared_memory_per_block", limits["shared_memory_per_sm"])
    fits: dict[Limit, int] = {
        "threads": limits["warps_per_sm"] // warps
        if threads <= limits.get("threads_per_block", 1024)
        else 0,
        "blocks": limits["blocks_per_sm"],
    }
    if registers:
        warp = _up(registers * 32, _REGISTERS_A_WARP)
        quarter = limits["registers_per_sm"] // _PARTITIONS // warp
        # A block's registers are checked as if its warps filled whole rounds of the schedulers.
        whole = warp * _up(warps, _PARTITIONS) <= limits["registers_per_sm"]
        fits["registers"] = quarter * _PARTITIONS // warps if whole else 0
    if shared > block:
        fits["shared memory"] = 0
    elif taken := _up(shared, _SHARED_STEP) + limits["shared_memory_per_sm"] - block:
        fits["shared memory"] = limits["shared_memory_per_sm"] // taken
    return _least(fits, warps, limits["warps_per_sm"])


def _amd_occupancy(
    limits: Mapping[str, int], registers: int, shared: int, threads: int
) -> Occupancy:
    simds = limits.get("simds_per_cu", 4)
    most = limits["waves_per_simd"] * simds
    waves = math.ceil(threads / limits.get("wave_lanes", 64))
    fits: dict[Limit, int] = {
        "threads": most // waves if threads <= limits.get("threads_per_block", 1024) else 0
    }
    if registers:
        lane = limits["vector_registers_per_lane"] // _up(
            registers, limits.get("vector_register_step", _VGPR_STEP)
        )
        fits["registers"] = min(lane, limits["waves_per_simd"]) * simds // waves
    if shared:
        fits["shared memory"] = limits["shared_memory_per_cu"] // _up(shared, _LDS_STEP)
    return _least(fits, waves, most)


def _least(fits: Mapping[Limit, int], warps: int, most: int) -> Occupancy:
    blocks = min(fits.values())
    return Occupancy(
        fraction=blocks * warps / most,
        blocks=blocks,
        warps=blocks * warps,
        limited_by=tuple(name for name, count in fits.items() if count == blocks),
    )


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
