"""softmax((x @ W.T + bias) / (1 + rms(x))) over 256 experts in bfloat16, in one CUDA kernel."""

import torch
from torch import nn

from kb.native import load_cuda, tensor_map

ROWS, WIDTH, EXPERTS = 32768, 2048, 256
KNOBS = {"ROT": [0, 1], "HINT": [0, 1]}

CUDA_SOURCE = r"""
#include <cuda.h>
#include <cuda_bf16.h>
#define ROT 1
#define HINT 1
typedef unsigned int u32;
typedef unsigned long long u64;

#define STAGES 4
#define STAGE_BYTES 49152
#define A_BYTES 16384
#define STG_OFF (STAGES * STAGE_BYTES)
#define BIAS_OFF (STG_OFF + 32768)
#define BAR_OFF (BIAS_OFF + 1024)
#define KSTEPS 32
#define TILES 256
#define GRID 128

__device__ __forceinline__ u32 smem_u32(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void mbar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void mbar_wait(u32 bar, u32 parity) {
  u32 ok;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
  } while (!ok);
}
__device__ __forceinline__ void mbar_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void tma_load(u32 dst, const CUtensorMap* map, u32 bar, int c0, int c1, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4}], [%2], %5;"
      ::"r"(dst), "l"((u64)map), "r"(bar), "r"(c0), "r"(c1), "l"(policy) : "memory");
}
__device__ __forceinline__ u64 make_desc(u32 addr) {  // K-major, 128-byte swizzle, 8 rows are 1,024 bytes
  return (u64)((addr & 0x3FFFF) >> 4) | ((u64)1 << 16) | ((u64)64 << 32) | ((u64)1 << 62);
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)

__device__ __forceinline__ void wgmma256(float (&d)[128], u64 da, u64 db, u32 keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, p, 1, 1, 0, 0;\n}\n"
      : R16(0), R16(16), R16(32), R16(48), R16(64), R16(80), R16(96), R16(112)
      : "l"(da), "l"(db), "r"(keep));
}
__device__ __forceinline__ float ex2(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ void lds4(u32 (&u)[4], u32 addr) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(u[0]), "=r"(u[1]), "=r"(u[2]), "=r"(u[3]) : "r"(addr) : "memory");
}
__device__ __forceinline__ u32 pack2(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

// adds the squares of this warp's 16 rows of the stage: ss[i] belongs to row 4 i + lane / 8
__device__ __forceinline__ void add_squares(float (&ss)[4], u32 addr) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 u[4];
    lds4(u, addr + i * 512);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float lo = __uint_as_float(u[e] << 16);
      float hi = __uint_as_float(u[e] & 0xFFFF0000u);
      ss[i] = fmaf(lo, lo, ss[i]);
      ss[i] = fmaf(hi, hi, ss[i]);
    }
  }
}

// 16 rows x 256 scores of a warp: bias, softmax of the scores over the row's heat, store
__device__ __forceinline__ void epilogue(float (&d)[128], float (&ss)[4], const float* bs, u32 stg,
                                         __nv_bfloat16* out, int lane) {
  const int q = lane & 3, g = lane >> 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    ss[i] += __shfl_xor_sync(0xffffffffu, ss[i], 1);
    ss[i] += __shfl_xor_sync(0xffffffffu, ss[i], 2);
    ss[i] += __shfl_xor_sync(0xffffffffu, ss[i], 4);
  }
  const int src = (g & 3) * 8;
  const float t0 = __shfl_sync(0xffffffffu, ss[0], src);
  const float t1 = __shfl_sync(0xffffffffu, ss[1], src);
  const float t2 = __shfl_sync(0xffffffffu, ss[2], src);
  const float t3 = __shfl_sync(0xffffffffu, ss[3], src);
  const float q0 = g >= 4 ? t1 : t0;  // row g
  const float q1 = g >= 4 ? t3 : t2;  // row g + 8
  const float c0 = 1.4426950408889634f / (1.0f + sqrtf(q0 * (1.0f / 2048.0f)));
  const float c1 = 1.4426950408889634f / (1.0f + sqrtf(q1 * (1.0f / 2048.0f)));

  float m0 = __int_as_float(0xff800000), m1 = m0, n0 = m0, n1 = m0;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    const float2 b = *reinterpret_cast<const float2*>(bs + 8 * j + 2 * q);
    d[4 * j + 0] += b.x;
    d[4 * j + 1] += b.y;
    d[4 * j + 2] += b.x;
    d[4 * j + 3] += b.y;
    m0 = fmaxf(m0, d[4 * j + 0]);
    n0 = fmaxf(n0, d[4 * j + 1]);
    m1 = fmaxf(m1, d[4 * j + 2]);
    n1 = fmaxf(n1, d[4 * j + 3]);
  }
  m0 = fmaxf(m0, n0);
  m1 = fmaxf(m1, n1);
  m0 = fmaxf(m0, __shfl_xor_sync(0xffffffffu, m0, 1));
  m1 = fmaxf(m1, __shfl_xor_sync(0xffffffffu, m1, 1));
  m0 = fmaxf(m0, __shfl_xor_sync(0xffffffffu, m0, 2));
  m1 = fmaxf(m1, __shfl_xor_sync(0xffffffffu, m1, 2));
  const float o0 = -m0 * c0, o1 = -m1 * c1;
  float s0 = 0.f, s1 = 0.f, r0 = 0.f, r1 = 0.f;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    d[4 * j + 0] = ex2(fmaf(d[4 * j + 0], c0, o0));
    d[4 * j + 1] = ex2(fmaf(d[4 * j + 1], c0, o0));
    d[4 * j + 2] = ex2(fmaf(d[4 * j + 2], c1, o1));
    d[4 * j + 3] = ex2(fmaf(d[4 * j + 3], c1, o1));
    s0 += d[4 * j + 0];
    r0 += d[4 * j + 1];
    s1 += d[4 * j + 2];
    r1 += d[4 * j + 3];
  }
  s0 += r0;
  s1 += r1;
  s0 += __shfl_xor_sync(0xffffffffu, s0, 1);
  s1 += __shfl_xor_sync(0xffffffffu, s1, 1);
  s0 += __shfl_xor_sync(0xffffffffu, s0, 2);
  s1 += __shfl_xor_sync(0xffffffffu, s1, 2);
  const float i0 = 1.0f / s0, i1 = 1.0f / s1;

  const int wrow = lane & 15;
  const u32 wbase = stg + wrow * 256;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int p = 0; p < 8; ++p) {
      const int j = h * 16 + 2 * p;
      const u32 a0 = pack2(d[4 * j + 0] * i0, d[4 * j + 1] * i0);
      const u32 a1 = pack2(d[4 * j + 2] * i1, d[4 * j + 3] * i1);
      const u32 a2 = pack2(d[4 * j + 4] * i0, d[4 * j + 5] * i0);
      const u32 a3 = pack2(d[4 * j + 6] * i1, d[4 * j + 7] * i1);
      const u32 addr = wbase + (((2 * p + (lane >> 4)) ^ (wrow & 7)) << 4);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                   ::"r"(addr), "r"(a0), "r"(a1), "r"(a2), "r"(a3) : "memory");
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = 2 * i + (lane >> 4), chunk = lane & 15;
      u32 u[4];
      lds4(u, stg + row * 256 + ((chunk ^ (row & 7)) << 4));
      *reinterpret_cast<uint4*>(out + row * 256 + h * 128 + chunk * 8) = make_uint4(u[0], u[1], u[2], u[3]);
    }
    __syncwarp();
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) expert_router(
    const __grid_constant__ CUtensorMap mx, const __grid_constant__ CUtensorMap mw,
    const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ out) {
  extern __shared__ unsigned char raw[];
  const u32 base = (smem_u32(raw) + 1023u) & ~1023u;
  float* bs = reinterpret_cast<float*>(raw + (base - smem_u32(raw)) + BIAS_OFF);
  const u32 full = base + BAR_OFF, empty = full + 8 * STAGES;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, group = tid >> 7;
  if (tid == 0) {
    for (int s = 0; s < STAGES; ++s) {
      mbar_init(full + 8 * s, 1);
      mbar_init(empty + 8 * s, 8);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int rot = ROT * (int)blockIdx.x;

  if (group == 2) {  // who loads
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 8 && lane == 0) {
      const u64 px = HINT ? 0x12F0000000000000ull : 0x1000000000000000ull;
      const u64 pw = HINT ? 0x14F0000000000000ull : 0x1000000000000000ull;
      int it = 0;
      for (int tile = blockIdx.x; tile < TILES; tile += GRID) {
        for (int i = 0; i < KSTEPS; ++i, ++it) {
          const int s = it & (STAGES - 1);
          const u32 stage = base + s * STAGE_BYTES;
          const int k = ((i + rot) & (KSTEPS - 1)) * 64;
          mbar_wait(empty + 8 * s, ((it / STAGES) & 1) ^ 1);
          mbar_expect(full + 8 * s, STAGE_BYTES);
          tma_load(stage, &mx, full + 8 * s, k, tile * 128, px);
          tma_load(stage + A_BYTES, &mw, full + 8 * s, k, 0, pw);
        }
      }
    }
  } else {  // who multiplies: 64 rows a group
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    bs[tid] = __bfloat162float(bias[tid]);
    asm volatile("bar.sync 1, 256;" ::: "memory");
    const u32 stg = base + STG_OFF + warp * 4096;
    int it = 0;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < TILES; tile += GRID) {
      float d[128];
#pragma unroll
      for (int i = 0; i < 128; ++i) asm volatile("" : "=f"(d[i]));
      float ss[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll 1
      for (int i = 0; i < KSTEPS; ++i, ++it) {
        const int s = it & (STAGES - 1);
        const u32 stage = base + s * STAGE_BYTES;
        const u64 da = make_desc(stage + group * 8192), db = make_desc(stage + A_BYTES);
        mbar_wait(full + 8 * s, (it / STAGES) & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        wgmma256(d, da, db, i);
        wgmma256(d, da + 2, db + 2, 1);
        wgmma256(d, da + 4, db + 4, 1);
        wgmma256(d, da + 6, db + 6, 1);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        add_squares(ss, stage + warp * 2048 + lane * 16);
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        __syncwarp();
        if (i > 0 && lane == 0)
          asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * ((it - 1) & (STAGES - 1))) : "memory");
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(d[i])::"memory");
      __syncwarp();
      if (lane == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * ((it - 1) & (STAGES - 1))) : "memory");
      epilogue(d, ss, bs, stg, out + (size_t)(tile * 128 + warp * 16) * 256, lane);
    }
  }
}
"""

kernels = load_cuda(CUDA_SOURCE, flags="")

SHARED = 4 * 49152 + 32768 + 1024 + 64 + 1024


class ModelNew(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.experts = nn.Parameter((torch.randn(experts, width) / width**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(experts).bfloat16())

    def forward(self, x):
        out = torch.empty((ROWS, EXPERTS), dtype=x.dtype, device=x.device)
        mx = tensor_map(x, (128, 64), swizzle=128)
        mw = tensor_map(self.experts, (256, 64), swizzle=128)
        kernels.expert_router(128, 384, mx, mw, self.bias, out, shared=SHARED)
        return out
