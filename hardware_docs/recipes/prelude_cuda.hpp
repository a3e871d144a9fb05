// Shared by every CUDA C++ recipe: the vocabulary of prelude.hpp on a GPU, where a vector is four floats
// of one thread (one 16-byte access), and reductions over a warp and a block.
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#pragma nv_diag_suppress 177 // no kernel calls all of this
#define INL static __device__ __forceinline__
typedef unsigned int u32;

struct __align__(16) f4 { float x, y, z, w; };
struct b4 { bool x, y, z, w; };
struct i4 { int x, y, z, w; };
// One spelling for a vector and for the scalar that does a remainder.
template <class V> struct of;
template <> struct of<float> { typedef int i; typedef bool m; static constexpr int n = 1; };
template <> struct of<f4> { typedef i4 i; typedef b4 m; static constexpr int n = 4; };
template <class V> INL V to(float x) { if constexpr (of<V>::n == 1) return x; else return f4{x, x, x, x}; }
template <class V> INL f4 to(f4 x) { return x; }
template <class F> INL float lanewise(float x, F f) { return f(x); }
template <class F> INL f4 lanewise(f4 a, F f) { return f4{f(a.x), f(a.y), f(a.z), f(a.w)}; }
template <class F> INL float lanewise2(float x, float y, F f) { return f(x, y); }
template <class F> INL f4 lanewise2(f4 a, f4 b, F f) { return f4{f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)}; }

#define LIFT(S) \
  INL f4 operator S(f4 a, f4 b) { return f4{a.x S b.x, a.y S b.y, a.z S b.z, a.w S b.w}; } \
  INL f4 operator S(f4 a, float b) { return f4{a.x S b, a.y S b, a.z S b, a.w S b}; } \
  INL f4 operator S(float a, f4 b) { return f4{a S b.x, a S b.y, a S b.z, a S b.w}; }
LIFT(+) LIFT(-) LIFT(*) LIFT(/)
#undef LIFT
#define LIFT(S) \
  INL b4 operator S(f4 a, f4 b) { return b4{a.x S b.x, a.y S b.y, a.z S b.z, a.w S b.w}; } \
  INL b4 operator S(f4 a, float b) { return b4{a.x S b, a.y S b, a.z S b, a.w S b}; } \
  INL b4 operator S(float a, f4 b) { return b4{a S b.x, a S b.y, a S b.z, a S b.w}; }
LIFT(<) LIFT(<=) LIFT(>) LIFT(>=) LIFT(==) LIFT(!=)
#undef LIFT
INL f4 operator-(f4 a) { return f4{-a.x, -a.y, -a.z, -a.w}; }
INL b4 operator!(b4 a) { return b4{!a.x, !a.y, !a.z, !a.w}; }
INL b4 operator&(b4 a, b4 b) { return b4{a.x && b.x, a.y && b.y, a.z && b.z, a.w && b.w}; }
INL b4 operator|(b4 a, b4 b) { return b4{a.x || b.x, a.y || b.y, a.z || b.z, a.w || b.w}; }
INL float vsel(bool m, float a, float b) { return m ? a : b; }
INL f4 vsel(b4 m, f4 a, f4 b) { return f4{m.x ? a.x : b.x, m.y ? a.y : b.y, m.z ? a.z : b.z, m.w ? a.w : b.w}; }

// Loads and stores; a vector's address is a multiple of 16 bytes. STREAM: read or written once.
template <class V> INL V ld(const float* p) {
  if constexpr (of<V>::n == 1) return __ldg(p);
  else { const float4 v = __ldg((const float4*)p); return f4{v.x, v.y, v.z, v.w}; }
}
template <class V> INL V ldstream(const float* p) {
  if constexpr (of<V>::n == 1) return __ldcs(p);
  else { const float4 v = __ldcs((const float4*)p); return f4{v.x, v.y, v.z, v.w}; }
}
template <bool STREAM = false> INL void st(float* p, float v) { if constexpr (STREAM) __stcs(p, v); else *p = v; }
template <bool STREAM = false> INL void st(float* p, f4 v) {
  const float4 t = make_float4(v.x, v.y, v.z, v.w);
  if constexpr (STREAM) __stcs((float4*)p, t); else *(float4*)p = t;
}
// Two bytes in memory, float32 in registers: float16 (f16) and bfloat16 (b16); a vector's address is a multiple of 8 bytes.
struct f16 { unsigned short bits; };
struct b16 { unsigned short bits; };
INL float widened(f16 x) { float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(x.bits)); return v; }
INL float widened(b16 x) { return __int_as_float((int)x.bits << 16); }
INL unsigned short narrowed(float v, f16*) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
INL unsigned short narrowed(float v, b16*) {  // to the nearest, halves to even; NaN stays NaN
  const u32 w = __float_as_uint(v);
  return (unsigned short)((v == v ? w + 0x7fffu + (w >> 16 & 1u) : w | 0x400000u) >> 16);
}
INL float read1(const float* p) { return __ldg(p); }
template <class T> INL float read1(const T* p) { return widened(T{__ldg(&p->bits)}); }
template <class V, class T> INL V ld(const T* p) {
  if constexpr (of<V>::n == 1) return read1(p);
  else {
    const ushort4 v = __ldg((const ushort4*)p);
    return f4{widened(T{v.x}), widened(T{v.y}), widened(T{v.z}), widened(T{v.w})};
  }
}
template <bool STREAM = false, class T> INL void st(T* p, float v) { p->bits = narrowed(v, p); }
template <bool STREAM = false, class T> INL void st(T* p, f4 v) {
  const ushort4 t = make_ushort4(narrowed(v.x, p), narrowed(v.y, p), narrowed(v.z, p), narrowed(v.w, p));
  if constexpr (STREAM) __stcs((ushort4*)p, t); else *(ushort4*)p = t;
}
// Lane by lane, where neighbours in the result are not neighbours in the operand.
template <class V, class T, class F> INL V gather(const T* p, F at) {
  if constexpr (of<V>::n == 1) return read1(p + at(0));
  else return f4{read1(p + at(0)), read1(p + at(1)), read1(p + at(2)), read1(p + at(3))};
}
// Integers and truth values, from what `f` returns for each lane.
// What is compared with positions stays greater or less than all of them.
INL int nearest_int(long long x) { return x > 0x7fffffffLL ? 0x7fffffff : x < -0x7fffffffLL ? -0x7fffffff : (int)x; }

template <class V, class F> INL typename of<V>::i ints(F f) {
  if constexpr (of<V>::n == 1) return (int)f(0); else return i4{(int)f(0), (int)f(1), (int)f(2), (int)f(3)};
}
template <class V, class F> INL typename of<V>::m truths(F f) {
  if constexpr (of<V>::n == 1) return f(0); else return b4{f(0), f(1), f(2), f(3)};
}
INL b4 operator==(i4 a, i4 b) { return b4{a.x == b.x, a.y == b.y, a.z == b.z, a.w == b.w}; }
INL b4 operator<=(i4 a, i4 b) { return b4{a.x <= b.x, a.y <= b.y, a.z <= b.z, a.w <= b.w}; }
INL b4 operator<(i4 a, i4 b) { return b4{a.x < b.x, a.y < b.y, a.z < b.z, a.w < b.w}; }
INL b4 operator!=(i4 a, i4 b) { return b4{a.x != b.x, a.y != b.y, a.z != b.z, a.w != b.w}; }
INL b4 operator>=(i4 a, i4 b) { return b <= a; }
INL b4 operator>(i4 a, i4 b) { return b < a; }
INL i4 splat(int a) { return i4{a, a, a, a}; }
INL b4 operator<=(i4 a, int b) { return a <= splat(b); }
INL b4 operator<(i4 a, int b) { return a < splat(b); }
INL b4 operator!=(i4 a, int b) { return a != splat(b); }
INL b4 operator>=(i4 a, int b) { return a >= splat(b); }
INL b4 operator>(i4 a, int b) { return a > splat(b); }
INL i4 operator+(i4 a, int b) { return i4{a.x + b, a.y + b, a.z + b, a.w + b}; }
INL b4 operator==(i4 a, int b) { return b4{a.x == b, a.y == b, a.z == b, a.w == b}; }
// Rounds here: a product that several walks recompute must not melt into an addition in one of them.
template <class V> INL V rounded(V v) { return lanewise(v, [](float x) { asm volatile("" : "+f"(x)); return x; }); }

template <class V> INL V vabs(V v) { return lanewise(v, [](float x) { return fabsf(x); }); }
template <class V> INL V vcopysign(V v, V s) { return lanewise2(v, s, [](float x, float y) { return copysignf(x, y); }); }
// The second operand where either is NaN, as the framework's clamp needs it.
INL float hwmax(float a, float b) { return a > b ? a : b; }
INL float hwmin(float a, float b) { return a < b ? a : b; }
INL f4 hwmax(f4 a, f4 b) { return f4{hwmax(a.x, b.x), hwmax(a.y, b.y), hwmax(a.z, b.z), hwmax(a.w, b.w)}; }
INL f4 hwmin(f4 a, f4 b) { return f4{hwmin(a.x, b.x), hwmin(a.y, b.y), hwmin(a.z, b.z), hwmin(a.w, b.w)}; }
// NaN wins, as in the framework.
template <class V> INL V vmax(V a, V b) {
  return lanewise2(a, b, [](float x, float y) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; });
}
template <class V> INL V vmin(V a, V b) {
  return lanewise2(a, b, [](float x, float y) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; });
}
template <class V> INL V vrelu(V x) { return vmax(x, to<V>(0.f)); }
template <class V> INL V vclamp(V x, float lo, float hi) { return hwmin(to<V>(hi), hwmax(to<V>(lo), x)); }
template <class V> INL V vsqrt(V v) { return lanewise(v, [](float x) { return sqrtf(x); }); }
template <class V> INL V vrsqrt(V x) { return 1.f / vsqrt(x); }
template <class V> INL V vexp(V v) { return lanewise(v, [](float x) { return expf(x); }); }
template <class V> INL V vexpm1(V v) { return lanewise(v, [](float x) { return expm1f(x); }); }
template <class V> INL V vlog(V v) { return lanewise(v, [](float x) { return logf(x); }); }
template <class V> INL V vlog1p(V v) { return lanewise(v, [](float x) { return log1pf(x); }); }
template <class V> INL V vtanh(V v) { return lanewise(v, [](float x) { return tanhf(x); }); }
template <class V> INL V verf(V v) { return lanewise(v, [](float x) { return erff(x); }); }
template <class V> INL V vsigmoid(V x) { return 1.f / (1.f + vexp(-x)); }
template <class V> INL V vsilu(V x) { return x / (1.f + vexp(-x)); }
template <class V> INL V vgelu(V x) { return (0.5f * x) * (1.f + verf(x * 0.707106781f)); }
template <class V> INL V vgelu_tanh(V x) {
  const V u = 0.797884561f * (x + 0.044715f * (x * x * x));
  return (0.5f * x) * (1.f + vtanh(u));
}
template <class V> INL V vsoftplus(V x, float beta = 1.f, float threshold = 20.f) {
  const V z = x * beta;
  return vsel(z > threshold, x, vlog1p(vexp(z)) / beta);
}
// x tanh(log(1 + e)) with e = exp(x), without the two calls: tanh(log(w)) = (w^2 - 1) / (w^2 + 1).
template <class V> INL V vmish(V x) {
  const V e = vexp(hwmin(to<V>(20.f), x)), n = e * (e + 2.f);
  return vsel(x > 20.f, x, x * (n / (n + 2.f)));
}
template <int N, class V> INL V vpowi(V x) {
  if constexpr (N < 0) return 1.f / vpowi<-N>(x);
  else if constexpr (N == 0) return to<V>(1.f);
  else if constexpr (N == 1) return x;
  else if constexpr (N % 2) return vpowi<N - 1>(x) * x;
  else { const V h = vpowi<N / 2>(x); return h * h; }
}
template <class V> INL V vpow(V x, V y) { return lanewise2(x, y, [](float a, float b) { return powf(a, b); }); }
template <class V> INL V vfmod(V x, V y) { return lanewise2(x, y, [](float a, float b) { return fmodf(a, b); }); }

#define LANEWISE(F) template <class V> INL V v##F(V v) { return lanewise(v, [](float x) { return F##f(x); }); }
LANEWISE(exp2) LANEWISE(log2) LANEWISE(log10) LANEWISE(sin) LANEWISE(cos) LANEWISE(tan) LANEWISE(atan) LANEWISE(sinh) LANEWISE(cosh) LANEWISE(floor) LANEWISE(ceil)
#undef LANEWISE

// What a row is reduced by.
struct Sum { INL float identity() { return 0.f; } template <class V> INL V join(V a, V b) { return a + b; } };
struct Max { INL float identity() { return -INFINITY; } template <class V> INL V join(V a, V b) { return vmax(a, b); } };
struct Min { INL float identity() { return INFINITY; } template <class V> INL V join(V a, V b) { return vmin(a, b); } };
struct Prod { INL float identity() { return 1.f; } template <class V> INL V join(V a, V b) { return a * b; } };
template <class R> INL float across_lanes(f4 v) { return R::join(R::join(v.x, v.y), R::join(v.z, v.w)); }
template <class R> INL float across_lanes(float v) { return v; }
template <class R> INL float across_warp(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v = R::join(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
// The result in every thread; `room` holds 32 floats, and another barrier must pass before it is used again.
template <class R, int THREADS> INL float across_block(float v, float* room) {
  v = across_warp<R>(v);
  const int lane = threadIdx.x & 31;
  if (lane == 0) room[threadIdx.x >> 5] = v;
  __syncthreads();
  return across_warp<R>(lane < THREADS / 32 ? room[lane] : R::identity());
}

// Mean and squared differences of n elements, merged by Chan's formula.
struct Moments { float n, mean, squares; };
INL Moments join_moments(Moments a, Moments b) {
  const float n = a.n + b.n, part = n > 0.f ? b.n / n : 0.f, away = b.mean - a.mean;
  return Moments{n, a.mean + away * part, a.squares + b.squares + away * away * a.n * part};
}
INL Moments moments_across_warp(Moments m) {
#pragma unroll
  for (int o = 16; o; o >>= 1)
    m = join_moments(m, Moments{__shfl_xor_sync(~0u, m.n, o), __shfl_xor_sync(~0u, m.mean, o), __shfl_xor_sync(~0u, m.squares, o)});
  return m;
}

// Blocks of a cluster: each writes into the shared memory of the others.
INL u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
INL void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
INL void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
INL u32 address_of(const void* place, u32 rank) { u32 there; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(rank)); return there; }
// A barrier that counts the bytes that others send into this block's memory; it serves one time after the other.
typedef unsigned long long Arrivals;
INL void arrivals_begin(Arrivals* a) { asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(shared_address(a)) : "memory"); }
INL void arrivals_expect(Arrivals* a, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(a)), "r"(bytes) : "memory"); }
INL void arrivals_wait(Arrivals* a, u32 odd) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }" ::"r"(shared_address(a)), "r"(odd) : "memory"); }
template <int N> INL void cluster_send(float* place, Arrivals* counted, u32 rank, const float (&v)[N]) {
  const u32 to = address_of(place, rank), there = address_of(counted, rank);
  if constexpr (N == 1) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(v[0]), "r"(there) : "memory");
  if constexpr (N == 2) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to), "f"(v[0]), "f"(v[1]), "r"(there) : "memory");
  if constexpr (N == 4) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(there) : "memory"); }
INL void cluster_write(float2* place, u32 rank, float2 v) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address_of(place, rank)), "f"(v.x), "f"(v.y) : "memory");
}

// A kernel launched with overlap=True begins while the one before it ends; devices before sm_90 do neither.
INL void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
INL void wait_for_last() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
