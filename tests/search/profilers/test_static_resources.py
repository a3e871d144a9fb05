from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import TargetRecord
from search.profilers.static_resources import (
    occupancy,
    parse_amd,
    parse_cubin,
    parse_ptxas,
)

RECORDED = Path(__file__).parent / "recorded"


def limits(name: str) -> dict[str, int]:
    for document in load_library(shipped_docs() / "targets"):
        if isinstance(document.record, TargetRecord) and document.record.name == name:
            return dict(document.record.limits)
    raise AssertionError(name)


def test_occupancy_is_what_the_driver_of_an_h200_says() -> None:
    told = json.loads((RECORDED / "occupancy_h200.json").read_text())
    h200 = limits("h200")
    wrong = [
        row
        for row in told["rows"]
        if occupancy(h200, registers=row[0], shared=row[1], threads=row[2]).blocks != row[3]
    ]
    assert len(told["rows"]) > 400
    assert wrong == []


def test_what_limits_occupancy_is_named() -> None:
    h200 = limits("h200")
    assert occupancy(h200, 128, 0, 256).limited_by == ("registers",)
    assert occupancy(h200, 32, 200 << 10, 256).limited_by == ("shared memory",)
    assert occupancy(h200, 16, 0, 32).limited_by == ("blocks",)
    assert occupancy(h200, 16, 0, 1024).limited_by == ("threads",)
    assert occupancy(h200, 32, 0, 1024).limited_by == ("threads", "registers")
    assert occupancy(h200, 32, 0, 1024).fraction == 1
    assert occupancy(h200, 32, 300 << 10, 128).blocks == 0


def test_a_smaller_card_holds_fewer_warps() -> None:
    assert occupancy(limits("l40s"), 32, 0, 256).warps == 48
    assert occupancy(limits("a100"), 32, 0, 256).warps == 64


def test_on_rdna_a_wave_has_32_lanes_and_registers_come_in_larger_steps() -> None:
    radeon = limits("rx7900xtx")
    assert occupancy(radeon, 96, 0, 256).fraction == 1  # 16 waves of 96 registers fill a SIMD
    assert occupancy(radeon, 97, 0, 256).blocks == 3  # steps of 24: 12 waves, of 8 a block
    assert occupancy(radeon, 24, 40 << 10, 256).limited_by == ("shared memory",)


def test_on_amd_registers_of_a_lane_and_lds_limit_the_waves() -> None:
    mi300x = limits("mi300x")
    assert occupancy(mi300x, 64, 0, 256).fraction == 1
    assert occupancy(mi300x, 256, 0, 256).fraction == 0.25
    assert occupancy(mi300x, 256, 0, 256).limited_by == ("registers",)
    assert occupancy(mi300x, 64, 40 << 10, 256).limited_by == ("shared memory",)


def test_a_record_without_limits_is_refused() -> None:
    with pytest.raises(ValueError, match="registers_per_sm"):
        occupancy({}, 32, 0, 128)


def test_what_ptxas_prints_of_recorded_kernels() -> None:
    ptxas = {one.name: one for one in parse_ptxas((RECORDED / "ptxas_h200.txt").read_text())}
    assert len(ptxas) == 15
    spilling = ptxas["spills"]
    assert (spilling.registers, spilling.stack) == (32, 848)
    assert spilling.spill_bytes == 1256 + 1648
    assert ptxas["copy_wide"].spill_bytes == 0


def test_what_ptxas_warns_of_stands_with_its_kernel() -> None:
    log = (
        "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "insufficient register resources for the function 'first'\n"
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "non wgmma instructions defining accumulator registers of a wgmma in the function 'second'\n"
        "ptxas info    : (C1) Potential Performance Loss: <b>ignore</b> all else\n"
        + "".join(
            f"ptxas info    : Compiling entry function '{name}' for 'sm_90a'\n"
            f"ptxas info    : Used 128 registers, used 1 barriers\n"
            for name in ("first", "second", "third")
        )
    )
    first, second, third = parse_ptxas(log)
    why = "wgmma.mma_async instructions are serialized due to insufficient register resources"
    assert first.losses == (f"{why} (ptxas C7512)",)
    assert second.losses[0].endswith("accumulator registers of a wgmma (ptxas C7510)")
    assert third.losses == ()


# Two products whose sums leave no registers for anything else.
SERIALISED = """
extern "C" __global__ void __launch_bounds__(128, 8) crowded(const unsigned long long* d, float* out) {
  float a[64];
  for (int i = 0; i < 64; ++i) a[i] = out[i];
  asm volatile("wgmma.fence.sync.aligned;");
  for (int turn = 0; turn < 2; ++turn) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(a[0]), "+f"(a[1]), "+f"(a[2]), "+f"(a[3]) : "l"(d[0]), "l"(d[1]));
    a[0] += out[turn];
  }
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 64; ++i) out[i] = a[i];
}
"""


IGNORED = """
extern "C" __global__ void unbounded(float* out) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
  out[threadIdx.x] = 1;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, which is not on PATH")
@pytest.mark.parametrize(
    ("text", "told"),
    [(SERIALISED, "instructions are serialized"), (IGNORED, "'setmaxnreg' ignored")],
)
def test_what_a_real_compiler_warns_of_is_told(tmp_path: Path, text: str, told: str) -> None:
    source = tmp_path / "k.cu"
    source.write_text(text)
    done = subprocess.run(
        ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-Xptxas=-v", "-o", tmp_path / "k.cubin", source],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (kernel,) = parse_ptxas(done.stderr)
    assert any(told in loss for loss in kernel.losses), done.stderr


KERNELS = """
extern "C" __global__ void staged(float* b) {
  __shared__ float s[1024];
  s[threadIdx.x] = b[0];
  __syncthreads();
  b[threadIdx.x] = s[threadIdx.x ^ 1];
}
template <int N> __global__ void plain(float* b) { b[N] = 1; }
template __global__ void plain<3>(float*);
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, which is not on PATH")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_a_cubin_tells_what_ptxas_told(tmp_path: Path, architecture: str) -> None:
    source, cubin = tmp_path / "k.cu", tmp_path / "k.cubin"
    source.write_text(KERNELS)
    done = subprocess.run(
        ["nvcc", f"-arch={architecture}", "-cubin", "-Xptxas", "-v", "-o", cubin, source],
        capture_output=True,
        text=True,
        check=True,
    )
    told = {one.name: one for one in parse_ptxas(done.stderr)}
    read = {one.name: one for one in parse_cubin(cubin.read_bytes())}
    assert set(told) == set(read) == {"staged", "_Z5plainILi3EEvPf"}
    for name, one in told.items():
        assert (read[name].registers, read[name].shared) == (one.registers, one.shared)
    assert read["staged"].shared == 4096


@pytest.mark.parametrize("data", [b"", b"MZ", b"\x7fELF\x02", b"\x7fELF\x02" + bytes(60)])
def test_what_is_no_cubin_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        parse_cubin(data)


AMD = """
own_gelu:
\ts_endpgm
\t.section\t.rodata
\t.amdhsa_kernel own_gelu
\t\t.amdhsa_group_segment_fixed_size 16384
\t\t.amdhsa_private_segment_fixed_size 24
\t\t.amdhsa_next_free_vgpr 40
\t.end_amdhsa_kernel
; NumVgprs: 34
; NumAgprs: 6
; TotalNumVgprs: 40
; ScratchSize: 24
; Occupancy: 8
"""


def test_amd_assembly_tells_registers_lds_and_scratch() -> None:
    (one,) = parse_amd(AMD)
    assert (one.name, one.registers, one.shared, one.stack, one.waves) == (
        "own_gelu", 40, 16384, 24, 8,
    )  # fmt: skip
