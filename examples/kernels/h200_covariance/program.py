"""Covariances of all pairs of columns in bfloat16: 36 of 64 tiles of x.T @ x, the means taken off afterwards, in CUDA C++."""

import torch
from torch import nn

from kb.native import load_cuda, tensor_map

CUDA_SOURCE = r"""
#include <cuda.h>
#include <cuda_bf16.h>
typedef unsigned int u32;
typedef unsigned long long u64;
constexpr int ROWS = 32768, WIDTH = 2048;
constexpr u32 STAGE = 49152, STAGES = 4, BARS = STAGE * STAGES;

__device__ __forceinline__ u32 smem_addr(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void mbar_init(u32 a, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(a), "r"(n) : "memory");
}
__device__ __forceinline__ void mbar_wait(u32 a, u32 parity) {
  u32 ok;
  do {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}\n" : "=r"(ok) : "r"(a), "r"(parity) : "memory");
  } while (!ok);
}
__device__ __forceinline__ void mbar_expect(u32 a, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(a), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_arrive(u32 a) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(a) : "memory");
}
__device__ __forceinline__ void tma_own(u32 dst, const CUtensorMap* m, int x, int y, u32 bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];"
               :: "r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y) : "memory");
}
// Both operands lie across k: 64 columns by 64 rows a box of 8 KB, 128-byte swizzle.
__device__ __forceinline__ u64 make_desc(u32 a) {
  return (u64)((a & 0x3FFFF) >> 4) | (512ull << 16) | (64ull << 32) | (1ull << 62);
}
#define F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(d, i) F4(d, i), F4(d, i + 4), F4(d, i + 8), F4(d, i + 12)
#define F64(d, i) F16(d, i), F16(d, i + 16), F16(d, i + 32), F16(d, i + 48)
__device__ __forceinline__ void wgmma256(float (&d)[128], u64 da, u64 db, int keep) {
  asm volatile("{\n.reg .pred p;\n"
    "setp.ne.b32 p, %130, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
    "%128, %129, p, 1, 1, 1, 1;\n}\n"
    : F64(d, 0), F64(d, 64)
    : "l"(da), "l"(db), "r"(keep));
}

// Tiles of 256 x 256: the eight of the diagonal first, then the 28 above it.
__device__ __forceinline__ void tile_at(int t, int& ti, int& tj) {
  if (t < 8) { ti = t; tj = t; return; }
  int n = t - 8, i = 0;
  while (n >= 7 - i) { n -= 7 - i; ++i; }
  ti = i;
  tj = i + 1 + n;
}
// Piece 0: all of one tile's half of k. Piece 1: an eleventh of a half of the tiles 33 to 35.
__device__ __forceinline__ void piece_at(int seg, int g, int l, int& tile, int& k0, int& k1, int& slot) {
  if (seg == 0) {
    tile = l; k0 = g * 256; k1 = k0 + 256; slot = g * 33 + l;
  } else {
    int p = l % 11;
    tile = 33 + l / 11; k0 = g * 256 + p * 256 / 11; k1 = g * 256 + (p + 1) * 256 / 11; slot = 66 + g * 33 + l;
  }
}

extern "C" __global__ void __launch_bounds__(256) clear(float* sums) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  sums[blockIdx.x * 256 + threadIdx.x] = 0.f;
}

extern "C" __global__ void __launch_bounds__(384, 1) product(
    const __grid_constant__ CUtensorMap mx, const uint4* __restrict__ x, float* part, float* sums) {
  extern __shared__ unsigned char raw_smem[];
  const u32 base = (smem_addr(raw_smem) + 1023u) & ~1023u;
  const u32 full = base + BARS, empty = full + 64;
  const u32 rank = blockIdx.x & 1;
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (threadIdx.x == 0) {
    for (int i = 0; i < (int)STAGES; ++i) { mbar_init(full + i * 8, 1); mbar_init(empty + i * 8, 8); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int cid = blockIdx.x >> 1, g = cid / 33, l = cid % 33;

  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
    if (warp == 0) {
      if (lane == 0) {
        u32 s = 0, ph = 1;
        for (int seg = 0; seg < 2; ++seg) {
          int tile, k0, k1, slot, ti, tj;
          piece_at(seg, g, l, tile, k0, k1, slot);
          tile_at(tile, ti, tj);
          const int ca = ti * 256 + (int)rank * 128, cb = tj * 256;
          for (int k = k0; k < k1; ++k) {
            const u32 st = base + s * STAGE, bar = full + s * 8;
            mbar_wait(empty + s * 8, ph);
            mbar_expect(bar, STAGE);
            tma_own(st, &mx, ca, k * 64, bar);
            tma_own(st + 8192, &mx, ca + 64, k * 64, bar);
#pragma unroll
            for (int i = 0; i < 4; ++i) tma_own(st + 16384 + i * 8192, &mx, cb + i * 64, k * 64, bar);
            if (++s == STAGES) { s = 0; ph ^= 1; }
          }
        }
      }
    } else {
      asm volatile("griddepcontrol.wait;" ::: "memory");
      const int b = blockIdx.x;
      const int r0 = b * 248 + (b < 32 ? b : 32), r1 = r0 + 248 + (b < 32 ? 1 : 0);
      for (int c = 0; c < 8; ++c) {
        const uint4* col = x + c * 32 + lane;
        float a[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) a[i] = 0.f;
#pragma unroll 1
        for (int r = r0 + warp - 1; r < r1; r += 24) {
          uint4 v[8];
#pragma unroll
          for (int u = 0; u < 8; ++u)
            v[u] = r + 3 * u < r1 ? __ldcs(col + (size_t)(r + 3 * u) * 256) : make_uint4(0, 0, 0, 0);
#pragma unroll
          for (int u = 0; u < 8; ++u) {
            a[0] += __uint_as_float(v[u].x << 16);
            a[1] += __uint_as_float(v[u].x & 0xffff0000u);
            a[2] += __uint_as_float(v[u].y << 16);
            a[3] += __uint_as_float(v[u].y & 0xffff0000u);
            a[4] += __uint_as_float(v[u].z << 16);
            a[5] += __uint_as_float(v[u].z & 0xffff0000u);
            a[6] += __uint_as_float(v[u].w << 16);
            a[7] += __uint_as_float(v[u].w & 0xffff0000u);
          }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) atomicAdd(sums + (c * 32 + lane) * 8 + i, a[i]);
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
    const int wg = (warp >> 2) - 1, w4 = warp & 3;
    const u64 descA0 = make_desc(base + wg * 8192), descB0 = make_desc(base + 16384);
    u32 s = 0, ph = 0;
    float acc[128];
#pragma unroll 1
    for (int seg = 0; seg < 2; ++seg) {
      int tile, k0, k1, slot;
      piece_at(seg, g, l, tile, k0, k1, slot);
      u32 last = 0;
#pragma unroll 1
      for (int k = k0; k < k1; ++k) {
        mbar_wait(full + s * 8, ph);
        u64 da = descA0 + (u64)(s * (STAGE >> 4)), db = descB0 + (u64)(s * (STAGE >> 4));
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) wgmma256(acc, da + kk * 128, db + kk * 128, (k > k0 || kk > 0) ? 1 : 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (k > k0) {
          if (lane == 0) mbar_arrive(empty + last * 8);
        }
        last = s;
        if (++s == STAGES) { s = 0; ph ^= 1; }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(acc[i]) :: "memory");
      if (lane == 0) mbar_arrive(empty + last * 8);
      float* to = part + (size_t)slot * 65536 + (rank * 128 + wg * 64 + w4 * 16 + (lane >> 2)) * 256 + (lane & 3) * 2;
#pragma unroll
      for (int j = 0; j < 32; ++j) {
        *(float2*)(to + j * 8) = make_float2(acc[j * 4], acc[j * 4 + 1]);
        *(float2*)(to + j * 8 + 2048) = make_float2(acc[j * 4 + 2], acc[j * 4 + 3]);
      }
    }
  }
}

__device__ __forceinline__ u32 pack2(float a, float b) {
  __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
  return *(u32*)&h;
}

extern "C" __global__ void __launch_bounds__(256) finish(
    const uint4* __restrict__ x, const float* part, const float* sums, __nv_bfloat16* __restrict__ out) {
  __shared__ float v[64][65];
  __shared__ float sum[128];
  __shared__ __align__(16) float xa[32][64];
  __shared__ __align__(16) float xb[32][64];
  const int tid = threadIdx.x;
  int n = blockIdx.x, bi = 0;
  while (n >= 32 - bi) { n -= 32 - bi; ++bi; }
  const int bj = bi + n;
  const int ti = bi >> 2, tj = bj >> 2;
  const int t = ti == tj ? ti : 8 + ti * 7 - ti * (ti - 1) / 2 + (tj - ti - 1);
  asm volatile("griddepcontrol.wait;" ::: "memory");

  // Nothing may cancel: n mean^2 at most 1/64 of the sum of squares, for every column of this block.
  int bad = 0;
  if (tid < 128) {
    int c = tid < 64 ? bi * 64 + tid : bj * 64 + tid - 64;
    int tc = c >> 8, o = c & 255;
    float q = __ldcg(part + (size_t)tc * 65536 + o * 257) + __ldcg(part + (size_t)(33 + tc) * 65536 + o * 257);
    float su = __ldcg(sums + c);
    sum[tid] = su;
    bad = !(su * su * (1.f / ROWS) <= q * (1.f / 64.f));
  }
  bad = __syncthreads_or(bad);
  const float scale = 1.f / (ROWS - 1);

  if (!bad) {
    float4 a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    const int pieces = t < 33 ? 1 : 11;
    const int first = t < 33 ? t : 66 + (t - 33) * 11;
    const float* from = part + (size_t)first * 65536 + ((bi & 3) * 64 + (tid >> 4)) * 256 + (bj & 3) * 64 + (tid & 15) * 4;
#pragma unroll 2
    for (int p = 0; p < pieces; ++p) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float4 w = __ldcg((const float4*)(from + (size_t)(p + h * 33) * 65536 + i * 4096));
          a[i].x += w.x; a[i].y += w.y; a[i].z += w.z; a[i].w += w.w;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int r = i * 16 + (tid >> 4), c = (tid & 15) * 4;
      float m = sum[r] * (1.f / ROWS);
      v[r][c] = (a[i].x - m * sum[64 + c]) * scale;
      v[r][c + 1] = (a[i].y - m * sum[64 + c + 1]) * scale;
      v[r][c + 2] = (a[i].z - m * sum[64 + c + 2]) * scale;
      v[r][c + 3] = (a[i].w - m * sum[64 + c + 3]) * scale;
    }
  } else {
    float d[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) d[i][j] = 0.f;
    const int lr = tid >> 3, lc = (tid & 7) * 8, ty = (tid >> 4) * 4, tx = (tid & 15) * 4;
    float ma[8], mb[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      ma[i] = sum[lc + i] * (1.f / ROWS);
      mb[i] = sum[64 + lc + i] * (1.f / ROWS);
    }
#pragma unroll 1
    for (int k = 0; k < ROWS; k += 32) {
      uint4 pa = x[(size_t)(k + lr) * 256 + bi * 8 + (tid & 7)], pb = x[(size_t)(k + lr) * 256 + bj * 8 + (tid & 7)];
      u32 wa[4] = {pa.x, pa.y, pa.z, pa.w}, wb[4] = {pb.x, pb.y, pb.z, pb.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        xa[lr][lc + 2 * i] = __uint_as_float(wa[i] << 16) - ma[2 * i];
        xa[lr][lc + 2 * i + 1] = __uint_as_float(wa[i] & 0xffff0000u) - ma[2 * i + 1];
        xb[lr][lc + 2 * i] = __uint_as_float(wb[i] << 16) - mb[2 * i];
        xb[lr][lc + 2 * i + 1] = __uint_as_float(wb[i] & 0xffff0000u) - mb[2 * i + 1];
      }
      __syncthreads();
#pragma unroll 8
      for (int r = 0; r < 32; ++r) {
        float4 p = *(const float4*)&xa[r][ty], w = *(const float4*)&xb[r][tx];
        float pp[4] = {p.x, p.y, p.z, p.w}, ww[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) d[i][j] = fmaf(pp[i], ww[j], d[i][j]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) v[ty + i][tx + j] = d[i][j] * scale;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int r = i * 16 + (tid >> 4), c = (tid & 15) * 4;
    *(uint2*)(out + (size_t)(bi * 64 + r) * WIDTH + bj * 64 + c) =
        make_uint2(pack2(v[r][c], v[r][c + 1]), pack2(v[r][c + 2], v[r][c + 3]));
    if (bi != bj)
      *(uint2*)(out + (size_t)(bj * 64 + r) * WIDTH + bi * 64 + c) =
          make_uint2(pack2(v[c][r], v[c + 1][r]), pack2(v[c + 2][r], v[c + 3][r]));
  }
}
"""

kernels = load_cuda(CUDA_SOURCE, flags="")


class ModelNew(nn.Module):
    def forward(self, x):
        work = torch.empty(132 * 65536 + 2048, dtype=torch.float32, device=x.device)
        part = work[: 132 * 65536]
        sums = work[132 * 65536 :]
        kernels.clear(8, 256, sums)
        mx = tensor_map(x, (64, 64), swizzle=128)
        kernels.product(132, 384, mx, x, part, sums, shared=197888, overlap=True)
        out = torch.empty(2048, 2048, dtype=x.dtype, device=x.device)
        kernels.finish(528, 256, x, part, sums, out, overlap=True)
        return out
