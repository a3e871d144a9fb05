"""Two block-diagonal products with a GELU between and a diagonal, in bfloat16: one CUDA kernel of clusters."""

import torch
from torch import nn

from kb.native import load_cuda, tensor_map

CUDA_SOURCE = r"""
#include <cuda.h>
#include <cuda_bf16.h>

typedef unsigned int u32;

constexpr int TILES = 1024;            // of 16 rows
constexpr int XS = 7;                  // slots of x
constexpr u32 R1_OFF = XS * 16384u;    // received activations, 3 slots
constexpr u32 R2_OFF = R1_OFF + 3u * 16384u;
constexpr u32 STG_OFF = R2_OFF + 3u * 16384u;
constexpr u32 BAR_OFF = STG_OFF + 16384u;      // 229376

__device__ __forceinline__ void mbar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void mbar_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_wait(u32 bar, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  } while (!done);
  __syncwarp();
}
__device__ __forceinline__ u32 map_cta(u32 addr, u32 cta) {
  u32 r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(cta));
  return r;
}
__device__ __forceinline__ void tma_load(u32 dst, const CUtensorMap* map, int c0, int c1, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar) : "memory");
}
__device__ __forceinline__ void tma_store(const CUtensorMap* map, int c0, int c1, u32 src) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
      :: "l"(map), "r"(c0), "r"(c1), "r"(src) : "memory");
}
__device__ __forceinline__ void ldsm(u32 (&a)[4], u32 addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(addr) : "memory");
}
__device__ __forceinline__ void ldsm_t(u32 (&a)[4], u32 addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(addr) : "memory");
}
__device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 pack(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
__device__ __forceinline__ float low(u32 v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high(u32 v) { return __uint_as_float(v & 0xffff0000u); }

// x * Phi(x), the error function by Abramowitz and Stegun 7.1.26 (1.5e-7)
__device__ __forceinline__ float gelu(float x) {
  const float ax = fabsf(x);
  float t, e;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(ax, 0.23164189f, 1.0f)));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * x * -0.72134752f));
  float q = fmaf(t, 0.5307027145f, -0.7265760135f);
  q = fmaf(t, q, 0.7107068705f);
  q = fmaf(t, q, -0.142248368f);
  q = fmaf(t, q, 0.127414796f);
  q = q * t * e;
  return fmaf(-ax, q, fmaxf(x, 0.0f));
}

// Sends a warp's 16 x 64 block: columns 8q..8q+7 to block q of the cluster, transposed.
__device__ __forceinline__ void send(const u32 (&v)[16], u32 stg_w, u32 stg_r, const u32 (&remote)[4],
                                     u32 data_off, u32 bar_off) {
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(stg_w + s * 512), "r"(v[s * 4]), "r"(v[s * 4 + 1]), "r"(v[s * 4 + 2]), "r"(v[s * 4 + 3])
                 : "memory");
  }
  __syncwarp();
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    u32 a, b, c, d;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(stg_r + s * 512) : "memory");
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
        :: "r"(remote[s] + data_off), "r"(a), "r"(b), "r"(c), "r"(d), "r"(remote[s] + bar_off) : "memory");
  }
  __syncwarp();
}

extern "C" __global__ void __launch_bounds__(256, 1) monarch(
    const __grid_constant__ CUtensorMap map_x,
    const __grid_constant__ CUtensorMap map_y,
    const unsigned short* __restrict__ first,
    const unsigned short* __restrict__ second,
    const u32* __restrict__ diagonal) {
  extern __shared__ unsigned char smem_raw[];
  const u32 base = ((u32)__cvta_generic_to_shared(smem_raw) + 1023u) & ~1023u;
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const int cluster = blockIdx.x >> 3;
  const int clusters = gridDim.x >> 3;
  const int count = (TILES - cluster + clusters - 1) / clusters;
  const int warp = __shfl_sync(0xffffffffu, (int)(threadIdx.x >> 5), 0);
  const int lane = threadIdx.x & 31;
  const int col = ((int)rank * 8 + warp) * 64;

  const u32 full1 = base + BAR_OFF;
  const u32 full2 = full1 + 24;
  const u32 xfull = full1 + 64 + warp * 64;
  if (threadIdx.x == 0) {
    for (int s = 0; s < 3; ++s) {
      mbar_init(full1 + s * 8, 1);
      mbar_init(full2 + s * 8, 1);
    }
    for (int w = 0; w < 8; ++w)
      for (int s = 0; s < XS; ++s) mbar_init(full1 + 64 + w * 64 + s * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int s = 0; s < 3; ++s) {
      mbar_expect(full1 + s * 8, 16384u);
      mbar_expect(full2 + s * 8, 16384u);
    }
  }
  __syncthreads();
  asm volatile("fence.proxy.async;" ::: "memory");
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

  const u32 xbase = base + warp * 2048u;
  if (lane == 0) {
    for (int n = 0; n < 3 && n < count; ++n) {
      mbar_expect(xfull + n * 8, 2048u);
      tma_load(xbase + n * 16384u, &map_x, col, (cluster + n * clusters) * 16, xfull + n * 8);
    }
  }
  __syncwarp();

  // weights as B fragments
  u32 w1[4][8][2], w2[4][8][2], dg[8];
  {
    const unsigned short* f = first + (size_t)((int)rank * 8 + warp) * 4096 + (lane & 3) * 128 + (lane >> 2);
    const unsigned short* g = second + (size_t)((int)rank * 8 + warp) * 4096 + (lane & 3) * 128 + (lane >> 2);
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int t = 0; t < 8; ++t)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int o = (k * 16 + h * 8) * 64 + t * 8;
          w1[k][t][h] = (u32)f[o] | ((u32)f[o + 64] << 16);
          w2[k][t][h] = (u32)g[o] | ((u32)g[o + 64] << 16);
        }
#pragma unroll
    for (int s = 0; s < 8; ++s) dg[s] = diagonal[(col + s * 8) / 2 + (lane & 3)];
  }

  const u32 stg = base + STG_OFF + warp * 2048u;
  const u32 stg_w = stg + (lane >> 3) * 128 + (((lane & 7) ^ warp) << 4);
  const u32 stg_r = stg + lane * 16;
  u32 remote[4];
#pragma unroll
  for (int s = 0; s < 4; ++s) remote[s] = map_cta(base, s * 2 + (lane >> 4));
  const u32 send_off = rank * 2048u + ((lane >> 3) & 1) * 1024u + warp * 128u + (lane & 7) * 16u;
  // place of this warp's column in what was received
  const u32 recv_off = (lane >> 4) * 2048u + ((lane >> 3) & 1) * 1024u + (lane & 7) * 128u
                       + (((lane & 7) ^ warp) << 4);
  const u32 arow = (lane & 15) * 128u;
  const int aswz = lane & 7;
  const int r8 = lane >> 2;

#pragma unroll 1
  for (int i = 0; i < count + 3; ++i) {
    if (i >= 3) {
      // third part of tile i - 3: diagonal * x added, result stored
      const int n = i - 3;
      const int slot = n % 3;
      mbar_wait(full2 + slot * 8, (n / 3) & 1);
      if (threadIdx.x == 0) mbar_expect(full2 + slot * 8, 16384u);
      __syncwarp();
      const u32 xt = xbase + (n % XS) * 16384u;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        u32 o[4];
        ldsm_t(o, base + R2_OFF + slot * 16384u + recv_off + k * 4096u);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          const int src = k * 2 + (m >> 1);
          const u32 addr = xt + (m & 1) * 1024u + r8 * 128u + ((src ^ r8) << 4) + (lane & 3) * 4u;
          u32 xv;
          asm volatile("ld.shared.b32 %0, [%1];" : "=r"(xv) : "r"(addr) : "memory");
          const float y0 = fmaf(low(dg[src]), low(xv), low(o[m]));
          const float y1 = fmaf(high(dg[src]), high(xv), high(o[m]));
          asm volatile("st.shared.b32 [%0], %1;" :: "r"(addr), "r"(pack(y0, y1)) : "memory");
        }
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane == 0) {
        tma_store(&map_y, col, (cluster + n * clusters) * 16, xt);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
      __syncwarp();
    }
    if (i + 3 < count && lane == 0) {
      // the slot's last result, of tile i - 4, has been read by its store
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      const int n = i + 3;
      const u32 bar = xfull + (n % XS) * 8;
      mbar_expect(bar, 2048u);
      tma_load(xbase + (n % XS) * 16384u, &map_x, col, (cluster + n * clusters) * 16, bar);
    }
    __syncwarp();
    if (i < count) {
      // first product of tile i
      const u32 xt = xbase + (i % XS) * 16384u;
      mbar_wait(xfull + (i % XS) * 8, (i / XS) & 1);
      float acc[8][4];
#pragma unroll
      for (int t = 0; t < 8; ++t)
#pragma unroll
        for (int m = 0; m < 4; ++m) acc[t][m] = 0.0f;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        u32 a[4];
        ldsm(a, xt + arow + (((k * 2 + (lane >> 4)) ^ aswz) << 4));
#pragma unroll
        for (int t = 0; t < 8; ++t) mma(acc[t], a, w1[k][t][0], w1[k][t][1]);
      }
      u32 v[16];
#pragma unroll
      for (int t = 0; t < 8; ++t) {
        v[t * 2] = pack(gelu(acc[t][0]), gelu(acc[t][1]));
        v[t * 2 + 1] = pack(gelu(acc[t][2]), gelu(acc[t][3]));
      }
      const int slot = i % 3;
      send(v, stg_w, stg_r, remote, R1_OFF + slot * 16384u + send_off, BAR_OFF + slot * 8u);
    }
    if (i >= 1 && i <= count) {
      // second product of tile i - 1
      const int n = i - 1;
      const int slot = n % 3;
      mbar_wait(full1 + slot * 8, (n / 3) & 1);
      if (threadIdx.x == 0) mbar_expect(full1 + slot * 8, 16384u);
      __syncwarp();
      float acc[8][4];
#pragma unroll
      for (int t = 0; t < 8; ++t)
#pragma unroll
        for (int m = 0; m < 4; ++m) acc[t][m] = 0.0f;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        u32 a[4];
        ldsm_t(a, base + R1_OFF + slot * 16384u + recv_off + k * 4096u);
#pragma unroll
        for (int t = 0; t < 8; ++t) mma(acc[t], a, w2[k][t][0], w2[k][t][1]);
      }
      u32 v[16];
#pragma unroll
      for (int t = 0; t < 8; ++t) {
        v[t * 2] = pack(acc[t][0], acc[t][1]);
        v[t * 2 + 1] = pack(acc[t][2], acc[t][3]);
      }
      send(v, stg_w, stg_r, remote, R2_OFF + slot * 16384u + send_off, BAR_OFF + 24u + slot * 8u);
    }
  }
  if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""

kernels = load_cuda(CUDA_SOURCE, flags="-std=c++17 -O3")

ROWS, SIDE = 16384, 64


class ModelNew(nn.Module):
    """Both products in one persistent kernel; clusters of eight exchange their blocks through shared memory."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.first = nn.Parameter((torch.randn(side, side, side) / side**0.5).bfloat16())
        self.second = nn.Parameter((torch.randn(side, side, side) / side**0.5).bfloat16())
        self.diagonal = nn.Parameter(torch.randn(side * side).bfloat16())

    def forward(self, x):
        y = torch.empty_like(x)
        map_x = tensor_map(x, (16, 64), swizzle=128)
        map_y = tensor_map(y, (16, 64), swizzle=128)
        kernels.monarch(
            120, 256, map_x, map_y, self.first, self.second, self.diagonal, shared=230912, cluster=8
        )
        return y
