"""Measure what data sheets of a Hopper GPU leave out: L2 to multiprocessor, wgmma by shape, single operations.

    python -m benchmarks.device_rates            # on an NVIDIA GPU of compute capability 9.0: one line a figure
    python -m benchmarks.device_rates --json

Every multiprocessor has one block that does the same many times; cycles are those of one block's own counter, the clock is
cycles by nanoseconds of the same launch. Median of seven launches after one.
"""

import argparse
import json
from statistics import median
from typing import Any

import torch

from kb.native import load_cuda

ROUNDS = 2_000
BYTES = 16 << 20  # read from L2, which holds them
HEAD = """
#include <stdint.h>
__device__ __forceinline__ uint32_t at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
#define BEGIN __syncthreads(); const long long t0 = clock64(), g0 = now();
#define END __syncthreads(); if (threadIdx.x == 0 && blockIdx.x == 0) { told[0] = clock64() - t0; told[1] = now() - g0; }
"""
MEMORY = """
extern "C" __global__ void __launch_bounds__(1024) l2_loads(const uint4* from, float* out, long long* told, int rounds) {
  uint32_t sum = 0;
  BEGIN
  for (int r = 0; r < rounds; ++r) {
    const uint4* p = from + (((size_t)(blockIdx.x * 7 + r * 13) * 8192) & (PIECES - 1)) + threadIdx.x;
    uint4 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "l"(p + i * 1024));
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  END
  if (sum == 12345u) out[threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(32) l2_bulk(const uint4* from, float* out, long long* told, int rounds) {
  extern __shared__ __align__(1024) unsigned char raw[];
  __shared__ __align__(8) uint64_t full[8];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(full + i)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  BEGIN
  if (threadIdx.x == 0) for (int r = 0; r < rounds + 8; ++r) {
    const uint32_t bar = at(full + (r & 7));
    if (r >= 8) {
      uint32_t ok;
      do asm volatile("{\\n.reg .pred p;\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\nselp.u32 %0, 1, 0, p;\\n}\\n"
        : "=r"(ok) : "r"(bar), "r"(((r >> 3) - 1) & 1) : "memory"); while (!ok);
    }
    if (r < rounds) {
      const uint4* p = from + (((size_t)(blockIdx.x * 7 + r * 13) * 1024) & (PIECES - 1));
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" :: "r"(bar) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16384, [%2];"
        :: "r"(at(raw) + (r & 7) * 16384), "l"(p), "r"(bar) : "memory");
    }
  }
  END
}
extern "C" __global__ void __launch_bounds__(1024) peer_loads(float* out, long long* told, int rounds) {
  extern __shared__ __align__(1024) unsigned char raw[];
  uint32_t rank, peer, sum = 0;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(at(raw)), "r"(rank ^ 1));
  asm volatile("barrier.cluster.arrive.release;\\nbarrier.cluster.wait.acquire;" ::: "memory");
  BEGIN
  for (int r = 0; r < rounds; ++r) {
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "r"(peer + ((threadIdx.x + 1024 * i + 32 * r) & 4095) * 16));
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  END
  asm volatile("barrier.cluster.arrive.release;\\nbarrier.cluster.wait.acquire;" ::: "memory");
  if (sum == 12345u) out[threadIdx.x] = sum;
}
""".replace("PIECES", str(BYTES // 16))
RESIDENT = """
extern "C" __global__ void __launch_bounds__(128) resident(int* count, long long* told) {
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    const long long t = clock64(), wait = blockIdx.x == 0 ? 1000000 : 3000000;  // the next blocks come when others end
    while (clock64() - t < wait);
    if (blockIdx.x == 0) told[0] = atomicAdd(count, 0);
  }
  __syncthreads();
}
"""
# Name, instruction of one value x, and the values that a thread has under way.
OPERATIONS = {
    "ex2.approx.ftz.f32": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i]));',
    "tanh.approx.f32": 'asm volatile("tanh.approx.f32 %0, %0;" : "+f"(x[i]));',
    "fma.rn.f32": 'asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i]) : "f"(y));',
    "max.f32": 'asm volatile("max.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(y));',
    "cvt.rn.bf16x2.f32": 'asm volatile("{\\n.reg .b32 t;\\ncvt.rn.bf16x2.f32 t, %0, %1;\\nmov.b32 %0, t;\\n}" : "+f"(x[i]) : "f"(y));',
    "shfl.sync.bfly": 'asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(x[i]));',
}
OPERATION = """
extern "C" __global__ void __launch_bounds__(1024) operation(float* out, long long* told, int rounds) {
  float x[8], y = out[threadIdx.x];
  for (int i = 0; i < 8; ++i) x[i] = y + i;
  BEGIN
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i) { STEP }
  }
  END
  for (int i = 0; i < 8; ++i) if (x[i] == 12345.f) out[i] = x[i];
}
"""
MMA = """
extern "C" __global__ void __launch_bounds__(512) mma_sync(float* out, long long* told, int rounds) {
  float d[8][4] = {};
  uint32_t a = __float_as_uint(out[threadIdx.x]), b = a;
  BEGIN
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"
        : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3]) : "r"(a), "r"(b));
  }
  END
  for (int i = 0; i < 8; ++i) if (d[i][0] + d[i][1] + d[i][2] + d[i][3] == 12345.f) out[i] = 1.f;
}
"""


def wgmma(n: int, groups: int, form: str) -> str:
    """Return a kernel of `groups` warp groups that multiply m64 n k16 in steps of 64 along k.

    Args:
        form: where A comes from and how the operands lie: `ss` both in shared memory, rows of k; `ss_b`: B has rows of n; `ss_a`: A
            has rows of m; `rs`: A in registers.
    """
    count = n // 2
    regs = ", ".join(f"%{i}" for i in range(count))
    ties = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    a, b = int(form == "ss_a"), int(form == "ss_b")
    if form == "rs":
        first = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
        operands = f'{first}, %{count + 4}, 1, 1, 1, 0;" : {ties} : "r"(a), "r"(a), "r"(a), "r"(a), "l"(db + 2 * k)'
    else:
        operands = (
            f'%{count}, %{count + 1}, 1, 1, 1, {a}, {b};" : {ties} : "l"(da + {128 if a else 2} * k), '
            f'"l"(db + {128 if b else 2} * k)'
        )
    return f"""
extern "C" __global__ void __launch_bounds__({128 * groups}) products(float* out, long long* told, int rounds) {{
  extern __shared__ __align__(1024) unsigned char raw[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) ((uint32_t*)raw)[i] = 0;
  const uint32_t base = (at(raw) + 1023) & ~1023u;
  const uint64_t fields = (1ull << 62) | (64ull << 32);
  const uint64_t da = fields | ((uint64_t)({512 if a else 1}) << 16) | (((base + (threadIdx.x >> 7) * 8192) & 0x3FFFF) >> 4);
  const uint64_t db = fields | ((uint64_t)({512 if b else 1}) << 16) | (((base + 16384) & 0x3FFFF) >> 4);
  float d[{count}];
#pragma unroll
  for (int i = 0; i < {count}; ++i) d[i] = 0.f;
  const uint32_t a = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
  BEGIN
  for (int r = 0; r < rounds; ++r) {{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k)
      asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{regs}}}, {operands});
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }}
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  END
#pragma unroll
  for (int i = 0; i < {count}; ++i) asm volatile("" : "+f"(d[i]));
  float sum = 0.f;
  for (int i = 0; i < {count}; ++i) sum += d[i];
  if (sum == 12345.f) out[threadIdx.x] = sum;
}}
"""


class Rates:
    """Runs kernels on all multiprocessors and takes the times that one block tells."""

    def __init__(self) -> None:
        self.units = torch.cuda.get_device_properties(0).multi_processor_count
        self._told = torch.zeros(2, dtype=torch.int64, device="cuda")
        self._out = torch.zeros(4096, device="cuda")
        self.found: dict[str, dict[str, float]] = {}

    def run(
        self, kernel: Any, threads: int, *given: Any, rounds: int = ROUNDS, **how: Any
    ) -> tuple[float, float]:
        """Return cycles and nanoseconds of all rounds."""
        times = []
        for _ in range(8):
            kernel(self.units, threads, *given, self._out, self._told, rounds, **how)
            torch.cuda.synchronize()
            times.append(tuple(self._told.tolist()))
        return median(c for c, _ in times[1:]), median(ns for _, ns in times[1:])

    def memory(self) -> None:
        """Measure bytes that come to a multiprocessor from L2 and from its partner in a cluster of two."""
        kernels = load_cuda(HEAD + MEMORY)
        data = torch.zeros(BYTES // 4, device="cuda")
        for name, kernel, threads, given, each, how in (
            ("L2, loads of 16 bytes, 1,024 threads", kernels.l2_loads, 1024, (data,), 8 * 16 * 1024, {}),
            ("L2, bulk copies of 16 KB, eight under way", kernels.l2_bulk, 32, (data,), 16384, {"shared": 8 * 16384}),
            ("the other block's shared memory, loads of 16 bytes", kernels.peer_loads, 1024, (), 4 * 16 * 1024,
             {"shared": 65536, "cluster": 2}),
        ):  # fmt: skip
            cycles, ns = self.run(kernel, threads, *given, **how)
            whole = each * ROUNDS
            self._note(name, bytes_a_cycle=whole / cycles, all_units=whole * self.units / ns / 1e3)

    def clusters(self) -> None:
        """Count the blocks that are there at once, one a multiprocessor, in clusters of some."""
        kernel = load_cuda(HEAD + RESIDENT).resident
        for size in (1, 2, 4, 8):
            count = torch.zeros(1, dtype=torch.int32, device="cuda")
            kernel(1024, 128, count, self._told, shared=200_000, cluster=size)
            torch.cuda.synchronize()
            self._note(f"blocks at once in clusters of {size}", blocks=int(self._told[0]))

    def operations(self) -> None:
        """Measure how many results of an operation a multiprocessor has in a cycle."""
        for name, step in OPERATIONS.items():
            kernels = load_cuda(HEAD + OPERATION.replace("STEP", step))
            cycles, ns = self.run(kernels.operation, 1024)
            self._note(name, a_cycle=1024 * 8 * ROUNDS / cycles, clock=cycles / ns)

    def products(self) -> None:
        """Measure the cycles of tensor-core products of bfloat16, and the clock under them."""
        cycles, ns = self.run(load_cuda(HEAD + MMA).mma_sync, 512)
        made = 16 * 8 * ROUNDS * 2 * 16 * 8 * 16
        self._note("mma.sync m16n8k16, 16 warps", flops_a_cycle=made / cycles, clock=cycles / ns)
        for form in ("ss", "ss_b", "ss_a", "rs"):
            for n in (64, 128, 192, 256):
                for groups in (1, 2):
                    kernel = load_cuda(HEAD + wgmma(n, groups, form)).products
                    cycles, ns = self.run(kernel, 128 * groups, shared=66560)
                    count = 4 * ROUNDS * groups
                    made = count * 2 * 64 * n * 16
                    self._note(
                        f"wgmma m64n{n}k16 {form}, {groups} groups",
                        cycles_each=cycles / count, flops_a_cycle=made / cycles, clock=cycles / ns,
                    )  # fmt: skip

    def _note(self, name: str, **figures: float) -> None:
        self.found[name] = {key: round(value, 3) for key, value in figures.items()}


def main() -> None:
    """Measure all and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rates = Rates()
    rates.memory()
    rates.clusters()
    rates.operations()
    rates.products()
    if asked.json:
        print(json.dumps(rates.found, indent=1))
        return
    for name, figures in rates.found.items():
        told = ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in figures.items())
        print(f"{name}: {told}")


if __name__ == "__main__":
    main()
