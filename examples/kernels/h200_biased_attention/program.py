import torch
from torch import nn

from kb.native import load_cuda, tensor_map

CUDA_SOURCE = r"""
#include <cuda.h>
#include <cuda_bf16.h>

#define LAZY 8
#define PVSPLIT 2
#define POLY 2

typedef unsigned int u32;
typedef unsigned long long u64;

#define OFF_K 16384
#define OFF_V 65536
#define OFF_BAR 114688
#define LOADS 17

__device__ __forceinline__ void mbar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void mbar_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_wait(u32 bar, u32 phase) {
  u32 ok;
  do {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(ok) : "r"(bar), "r"(phase) : "memory");
  } while (!ok);
}
__device__ __forceinline__ u32 atom_inc(u32 addr) {
  u32 old;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], 1;" : "=r"(old) : "r"(addr) : "memory");
  return old;
}
__device__ __forceinline__ void tma_tile(u32 dst, u64 map, u32 bar, int row) {
  mbar_expect(bar, 16384);
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               :: "r"(dst), "l"(map), "r"(bar), "r"(0), "r"(row) : "memory");
}
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_wait0() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

#define F4(s, i) "+f"((s)[(i)]), "+f"((s)[(i) + 1]), "+f"((s)[(i) + 2]), "+f"((s)[(i) + 3])
#define F16(s, i) F4(s, i), F4(s, (i) + 4), F4(s, (i) + 8), F4(s, (i) + 12)

// S (64 x 128) = Q (shared, K-major) * K^T (shared, K-major)
__device__ __forceinline__ void qk(float (&s)[64], u64 da, u64 db, int acc) {
  asm volatile(
    "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
    "%64, %65, p, 1, 1, 0, 0;\n}\n"
    : F16(s, 0), F16(s, 16), F16(s, 32), F16(s, 48)
    : "l"(da), "l"(db), "r"(acc));
}
__device__ __forceinline__ void qk(float (&s)[32], u64 da, u64 db, int acc) {
  asm volatile(
    "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
    "%32, %33, p, 1, 1, 0, 0;\n}\n"
    : F16(s, 0), F16(s, 16)
    : "l"(da), "l"(db), "r"(acc));
}
// O (64 x 64) += P (registers) * V (shared, MN-major)
__device__ __forceinline__ void pv(float (&o)[32], u32 a0, u32 a1, u32 a2, u32 a3, u64 db) {
  asm volatile(
    "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
    "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
    : F16(o, 0), F16(o, 16)
    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(db), "r"(1));
}
template <int N>
__device__ __forceinline__ void pin(float (&s)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(s[i]) :: "memory");
}

__device__ __forceinline__ float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 2^x on the FMA pipe, relative error 4e-5; x <= 9
__device__ __forceinline__ float ex2_fma(float x) {
  x = fmaxf(x, -125.0f);
  float t = __fadd_rn(x, 12582912.0f);
  float f = __fsub_rn(x, __fsub_rn(t, 12582912.0f));
  float r = fmaf(f, 0.009618129f, 0.05550411f);
  r = fmaf(r, f, 0.24022651f);
  r = fmaf(r, f, 0.69314718f);
  r = fmaf(r, f, 1.0f);
  return __int_as_float(__float_as_int(r) + (__float_as_int(t) << 23));
}
__device__ __forceinline__ u32 pack(float lo, float hi) {
  u32 d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}

struct Ctx {
  u32 sb;
  u64 mq, mk, mv;
  u64 dq, dk, dv;
  int rows;     // first row of this head in the flat tensors
  int na;       // key tiles of the first row tile
  int qrow;     // flat row of the second Q tile
  int lane;
  int dr;       // row within the tile minus first column of this thread
};

__device__ __forceinline__ int load_row(const Ctx& c, int n) {
  int kv = n < c.na ? c.na - 1 - n : 16 - n;
  return c.rows + kv * 128;
}

template <int E, bool DIAG>
__device__ __forceinline__ float expo(float x) {
  if (!DIAG && ((E * POLY) & 15) < POLY) return ex2_fma(x);
  return ex2(x);
}

template <int NB, bool DIAG>
__device__ __forceinline__ void step(const Ctx& c, float (&o)[32], float& m0, float& m1, float& l0, float& l1,
                                     const float (&bc)[8], float c32, float base, u32 st, u32 ph, int n) {
  const float SC = 0.125f * 1.4426950408889634f;
  const float NINF = __int_as_float(0xff800000);
  float s[NB * 4];
  mbar_wait(c.sb + OFF_BAR + 8 * st, ph);
  const u64 dk = c.dk + (u64)(st * 1024);
  wg_fence();
  qk(s, c.dq, dk, 0);
  qk(s, c.dq + 2, dk + 2, 1);
  qk(s, c.dq + 4, dk + 4, 1);
  qk(s, c.dq + 6, dk + 6, 1);
  wg_commit();
  wg_wait0();
  pin(s);
  if (c.lane == 0) {
    u32 old = atom_inc(c.sb + OFF_BAR + 64 + 4 * st);
    if ((old & 7) == 7 && n + 3 < LOADS)
      tma_tile(c.sb + OFF_K + st * 16384, c.mk, c.sb + OFF_BAR + 8 * st, load_row(c, n + 3));
    if (n == c.na - 1) {
      if (atom_inc(c.sb + OFF_BAR + 96) == 7)
        tma_tile(c.sb, c.mq, c.sb + OFF_BAR + 48, c.qrow);
    }
  }
  __syncwarp();

  float x0 = NINF, x1 = NINF;
#pragma unroll
  for (int g = 0; g < NB / 4; ++g) {
    float a0 = NINF, a1 = NINF;
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const int j = (g * 4 + b) * 4;
      s[j] = fmaf(s[j], SC, bc[2 * b]);
      s[j + 1] = fmaf(s[j + 1], SC, bc[2 * b + 1]);
      s[j + 2] = fmaf(s[j + 2], SC, bc[2 * b]);
      s[j + 3] = fmaf(s[j + 3], SC, bc[2 * b + 1]);
      if (DIAG) {
        const int col = (g * 4 + b) * 8;
        if (col > c.dr) s[j] = NINF;
        if (col + 1 > c.dr) s[j + 1] = NINF;
        if (col > c.dr + 8) s[j + 2] = NINF;
        if (col + 1 > c.dr + 8) s[j + 3] = NINF;
      }
      a0 = fmaxf(a0, fmaxf(s[j], s[j + 1]));
      a1 = fmaxf(a1, fmaxf(s[j + 2], s[j + 3]));
    }
    if (g > 0) { a0 = fmaf(c32, (float)g, a0); a1 = fmaf(c32, (float)g, a1); }
    x0 = fmaxf(x0, a0);
    x1 = fmaxf(x1, a1);
  }
  x0 = fmaxf(x0, __shfl_xor_sync(0xffffffffu, x0, 1));
  x1 = fmaxf(x1, __shfl_xor_sync(0xffffffffu, x1, 1));
  x0 = fmaxf(x0, __shfl_xor_sync(0xffffffffu, x0, 2)) + base;
  x1 = fmaxf(x1, __shfl_xor_sync(0xffffffffu, x1, 2)) + base;

  const bool need = (x0 > m0 + (float)LAZY) || (x1 > m1 + (float)LAZY);
  if (__any_sync(0xffffffffu, need)) {
    const float n0 = fmaxf(m0, x0), n1 = fmaxf(m1, x1);
    const float f0 = ex2(m0 - n0), f1 = ex2(m1 - n1);
    m0 = n0; m1 = n1;
    l0 *= f0; l1 *= f1;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      o[4 * i] *= f0; o[4 * i + 1] *= f0;
      o[4 * i + 2] *= f1; o[4 * i + 3] *= f1;
    }
  }
  const float q0 = base - m0, q1 = base - m1;
  mbar_wait(c.sb + OFF_BAR + 24 + 8 * st, ph);
  const u64 dv = c.dv + (u64)(st * 1024);

  constexpr int CH = (16 / PVSPLIT) < NB ? (16 / PVSPLIT) : NB;
#pragma unroll
  for (int h = 0; h < NB / CH; ++h) {
    u32 pr[CH * 2];
#pragma unroll
    for (int gg = 0; gg < CH / 4; ++gg) {
      const int g = h * (CH / 4) + gg;
      const float k0 = g > 0 ? fmaf(c32, (float)g, q0) : q0;
      const float k1 = g > 0 ? fmaf(c32, (float)g, q1) : q1;
      const int j = g * 16;
#define FOUR(b) { \
      const float e0 = expo<4 * b, DIAG>(s[j + 4 * b] + k0); \
      const float e1 = expo<4 * b + 1, DIAG>(s[j + 4 * b + 1] + k0); \
      const float e2 = expo<4 * b + 2, DIAG>(s[j + 4 * b + 2] + k1); \
      const float e3 = expo<4 * b + 3, DIAG>(s[j + 4 * b + 3] + k1); \
      l0 += e0; l1 += e2; l0 += e1; l1 += e3; \
      pr[gg * 8 + 2 * b] = pack(e0, e1); \
      pr[gg * 8 + 2 * b + 1] = pack(e2, e3); }
      FOUR(0) FOUR(1) FOUR(2) FOUR(3)
#undef FOUR
    }
    wg_fence();
#pragma unroll
    for (int kk = 0; kk < CH / 2; ++kk)
      pv(o, pr[4 * kk], pr[4 * kk + 1], pr[4 * kk + 2], pr[4 * kk + 3],
         dv + (u64)(128 * (h * (CH / 2) + kk)));
    wg_commit();
  }
  wg_wait0();
  pin(o);
  if (c.lane == 0) {
    u32 old = atom_inc(c.sb + OFF_BAR + 80 + 4 * st);
    if ((old & 7) == 7 && n + 3 < LOADS)
      tma_tile(c.sb + OFF_V + st * 16384, c.mv, c.sb + OFF_BAR + 24 + 8 * st, load_row(c, n + 3));
  }
  __syncwarp();
}

extern "C" __global__ void __launch_bounds__(256, 2) attn(
    const __grid_constant__ CUtensorMap mq, const __grid_constant__ CUtensorMap mk,
    const __grid_constant__ CUtensorMap mv, const float* __restrict__ slopes,
    __nv_bfloat16* __restrict__ out) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int tid = threadIdx.x;
  const int lane = tid & 31;
  const int warp = __shfl_sync(0xffffffffu, tid >> 5, 0);
  const int wg = warp >> 2;
  const int bh = blockIdx.x >> 3;
  const int p = blockIdx.x & 7;

  Ctx c;
  c.sb = (u32)__cvta_generic_to_shared(smem);
  c.mq = (u64)&mq; c.mk = (u64)&mk; c.mv = (u64)&mv;
  c.rows = bh * 2048;
  c.na = 16 - p;
  c.qrow = c.rows + p * 128;
  c.lane = lane;
  const u64 hi = (1ull << 62) | (64ull << 32);
  c.dq = hi | (1ull << 16) | (u64)((c.sb + wg * 8192) >> 4);
  c.dk = hi | (1ull << 16) | (u64)((c.sb + OFF_K) >> 4);
  c.dv = hi | (64ull << 16) | (u64)((c.sb + OFF_V) >> 4);
  const int rloc = wg * 64 + (warp & 3) * 16 + (lane >> 2);
  const int t2 = 2 * (lane & 3);
  c.dr = rloc - t2;

  if (tid == 0) {
    for (int i = 0; i < 7; ++i) mbar_init(c.sb + OFF_BAR + 8 * i, 1);
    u32* cnt = reinterpret_cast<u32*>(smem + OFF_BAR + 64);
    for (int i = 0; i < 16; ++i) cnt[i] = 0;
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (tid == 0) {
    tma_tile(c.sb, c.mq, c.sb + OFF_BAR + 48, c.rows + (15 - p) * 128);
    for (int i = 0; i < 3; ++i) {
      tma_tile(c.sb + OFF_K + i * 16384, c.mk, c.sb + OFF_BAR + 8 * i, load_row(c, i));
      tma_tile(c.sb + OFF_V + i * 16384, c.mv, c.sb + OFF_BAR + 24 + 8 * i, load_row(c, i));
    }
  }
  __syncwarp();

  const float cc = slopes[bh & 15] * 1.4426950408889634f;
  float bc[8];
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    bc[2 * b] = cc * (float)(8 * b + t2);
    bc[2 * b + 1] = cc * (float)(8 * b + t2 + 1);
  }
  const float c32 = cc * 32.0f;

  int n = 0;
  u32 st = 0, ph = 0;
#pragma unroll 1
  for (int t = 0; t < 2; ++t) {
    const int rt = t == 0 ? 15 - p : p;
    float o[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) o[i] = 0.0f;
    float m0 = __int_as_float(0xff800000), m1 = m0, l0 = 0.0f, l1 = 0.0f;
    mbar_wait(c.sb + OFF_BAR + 48, (u32)t);
    if (wg == 0) step<8, true>(c, o, m0, m1, l0, l1, bc, c32, 0.0f, st, ph, n);
    else step<16, true>(c, o, m0, m1, l0, l1, bc, c32, 0.0f, st, ph, n);
    ++n; ++st;
    if (st == 3) { st = 0; ph ^= 1; }
#pragma unroll 1
    for (int kv = rt - 1; kv >= 0; --kv) {
      step<16, false>(c, o, m0, m1, l0, l1, bc, c32, c32 * (float)(4 * (kv - rt)), st, ph, n);
      ++n; ++st;
      if (st == 3) { st = 0; ph ^= 1; }
    }
    l0 += __shfl_xor_sync(0xffffffffu, l0, 1);
    l1 += __shfl_xor_sync(0xffffffffu, l1, 1);
    l0 += __shfl_xor_sync(0xffffffffu, l0, 2);
    l1 += __shfl_xor_sync(0xffffffffu, l1, 2);
    const float i0 = 1.0f / l0, i1 = 1.0f / l1;
    u32* dst = reinterpret_cast<u32*>(out) + ((c.rows + rt * 128 + rloc) * 64 + t2) / 2;
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      dst[b * 4] = pack(o[4 * b] * i0, o[4 * b + 1] * i0);
      dst[b * 4 + 256] = pack(o[4 * b + 2] * i1, o[4 * b + 3] * i1);
    }
  }
}
"""

KNOBS = {"POLY": [0, 1, 2, 4], "PVSPLIT": [1, 2, 4]}

kernels = load_cuda(CUDA_SOURCE, flags="-std=c++17")


class ModelNew(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.rand(heads) * 0.1)

    def forward(self, q, k, v):
        out = torch.empty_like(v)
        mq = tensor_map(q.view(-1, 64), (128, 64), swizzle=128)
        mk = tensor_map(k.view(-1, 64), (128, 64), swizzle=128)
        mv = tensor_map(v.view(-1, 64), (128, 64), swizzle=128)
        kernels.attn(256, 256, mq, mk, mv, self.slopes.detach(), out, shared=115712)
        return out
