// Shared by every rendered recipe: one vector type, its loads and stores, and vector mathematics.
// GCC vector extensions keep it portable; the few builtins are those that GCC 12 does not find alone.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // libstdc++ takes a sixth of a second to read Bessel functions and the like, which nobody calls
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <unistd.h>
#include <utility>

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
#define INL static inline __attribute__((always_inline))

INL vf vload(const float* p) { vf v; __builtin_memcpy(&v, p, sizeof v); return v; }
INL void vstore(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
INL vf splat(float x) { return x - vf{}; }  // minus zero changes nothing, plus would be an addition
// The first n lanes; the others read as `fill` and are not written.
INL vf vload_n(const float* p, int n, float fill = 0.f) {
  vf v = splat(fill);
  for (int l = 0; l < W; ++l) if (l < n) v[l] = p[l];
  return v;
}
INL void vstore_n(float* p, vf v, int n) { float t[W]; vstore(t, v); for (int l = 0; l < n; ++l) p[l] = t[l]; }
// Size of the second-level cache; 1,024 where the system does not tell it.
INL long level2_kilobytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes / 1024;
#endif
  return 1024;
}
// By so many steps a product's inner loop asks for its right side ahead. On an Intel Xeon a pointwise convolution of 512
// channels took 12.5 ms so, and 16.0 without. On other processors it was not tried.
#if defined(__x86_64__) && !(defined(__znver1__) || defined(__znver2__) || defined(__znver3__) || defined(__znver4__) || \
                             defined(__znver5__))
constexpr long AHEAD = 8;
#else
constexpr long AHEAD = 0;
#endif
// Past the caches where the address allows it: a streaming store must be aligned.
INL void vstream(float* p, vf v) {
#if defined(__AVX512F__)
  if (!((uintptr_t)p & 63)) { __builtin_ia32_movntps512(p, v); return; }
#elif defined(__AVX__)
  if (!((uintptr_t)p & 31)) { __builtin_ia32_movntps256(p, v); return; }
#elif defined(__SSE__)
  if (!((uintptr_t)p & 15)) { __builtin_ia32_movntps(p, v); return; }
#endif
  vstore(p, v);
}
INL void vfence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

// One spelling for a vector and for the scalar that does a remainder.
template <class V> struct of;
template <> struct of<float> { typedef int32_t i; typedef bool m; static constexpr int n = 1; };
template <> struct of<vf> { typedef vi i; typedef vi m; static constexpr int n = W; };
template <class V> INL V ld(const float* p) {
  if constexpr (std::is_same_v<V, vf>) return vload(p); else return *p;
}
template <bool NT = false> INL void st(float* p, vf v) { if constexpr (NT) vstream(p, v); else vstore(p, v); }
template <bool NT = false> INL void st(float* p, float v) { *p = v; }
// Two bytes in memory, float32 in registers: float16 (f16) and bfloat16 (b16).
struct f16 { uint16_t bits; };
struct b16 { uint16_t bits; };
typedef int16_t vs __attribute__((vector_size(2 * W)));
INL float widened(b16 x) { const uint32_t w = (uint32_t)x.bits << 16; float v; __builtin_memcpy(&v, &w, 4); return v; }
INL void narrow(b16* p, float v) {  // to the nearest, halves to even; NaN stays NaN
  uint32_t w;
  __builtin_memcpy(&w, &v, 4);
  p->bits = (uint16_t)((v == v ? w + 0x7fff + (w >> 16 & 1) : w | 0x400000) >> 16);
}
// GCC 11 knows no _Float16 on x86, and needs none where the processor converts (F16C, with AVX2 everywhere). With neither,
// kernels that read or write float16 do not compile, and all others do.
#if defined(__F16C__) || defined(__FLT16_MAX__)
#if defined(__F16C__)
typedef int16_t eight __attribute__((vector_size(16)));
INL float widened(f16 x) { return __builtin_ia32_vcvtph2ps(eight{(int16_t)x.bits})[0]; }
INL void narrow(f16* p, float v) {
  typedef float four __attribute__((vector_size(16)));
  p->bits = (uint16_t)((eight)__builtin_ia32_vcvtps2ph(four{v}, 0))[0];
}
#else
INL float widened(f16 x) { _Float16 h; __builtin_memcpy(&h, &x, 2); return (float)h; }
INL void narrow(f16* p, float v) { const _Float16 h = (_Float16)v; __builtin_memcpy(p, &h, 2); }
#endif
INL vf vload(const f16* p) {
#if defined(__AVX512F__)
  vs h;
  __builtin_memcpy(&h, p, sizeof h);
  return __builtin_ia32_vcvtph2ps512_mask(h, vf{}, -1, 4);
#elif defined(__F16C__)
  vs h;
  __builtin_memcpy(&h, p, sizeof h);
  return __builtin_ia32_vcvtph2ps256(h);
#else
  vf v;
  for (int l = 0; l < W; ++l) v[l] = widened(p[l]);
  return v;
#endif
}
INL void vstore(f16* p, vf v) {
#if defined(__AVX512F__)
  const vs h = __builtin_ia32_vcvtps2ph512_mask(v, 0, vs{}, -1);
  __builtin_memcpy(p, &h, sizeof h);
#elif defined(__F16C__)
  const vs h = (vs)__builtin_ia32_vcvtps2ph256(v, 0);
  __builtin_memcpy(p, &h, sizeof h);
#else
  for (int l = 0; l < W; ++l) narrow(p + l, v[l]);
#endif
}
template <bool NT = false> INL void st(f16* p, vf v) { vstore(p, v); }
template <bool NT = false> INL void st(f16* p, float v) { narrow(p, v); }
#endif
INL vf vload(const b16* p) {
  vs h;
  __builtin_memcpy(&h, p, sizeof h);
  const vi w = __builtin_convertvector(h, vi) << 16;
  vf v;
  __builtin_memcpy(&v, &w, sizeof v);
  return v;
}
INL void vstore(b16* p, vf v) {
  vi w;
  __builtin_memcpy(&w, &v, sizeof w);
  const vi even = w + 0x7fff + (w >> 16 & 1);
  const vs h = __builtin_convertvector(v == v ? even >> 16 : (w | 0x400000) >> 16, vs);
  __builtin_memcpy(p, &h, sizeof h);
}
template <class V, class T> INL V ld(const T* p) {
  if constexpr (std::is_same_v<V, vf>) return vload(p); else return widened(*p);
}
template <bool NT = false> INL void st(b16* p, vf v) { vstore(p, v); }
template <bool NT = false> INL void st(b16* p, float v) { narrow(p, v); }
template <class V> INL V to(float x) { return x - V{}; }
template <class V> INL vf to(vf x) { return x; }
// Lane by lane, where neighbours in the result are not neighbours in the operand.
INL float widened(float x) { return x; }
template <class V, class T, class F> INL V gather(const T* p, F at) {
  if constexpr (std::is_same_v<V, vf>) {
    float t[W];
    for (int l = 0; l < W; ++l) t[l] = widened(p[at(l)]);
    return vload(t);
  } else return widened(p[at(0)]);
}
// Integers and truth values, from what `f` returns for each lane.
// What is compared with positions stays greater or less than all of them.
INL int nearest_int(long long x) { return x > 0x7fffffffLL ? 0x7fffffff : x < -0x7fffffffLL ? -0x7fffffff : (int)x; }

template <class V, class F> INL typename of<V>::i ints(F f) {
  if constexpr (std::is_same_v<V, vf>) {
    int32_t t[W];
    vi v;
    for (int l = 0; l < W; ++l) t[l] = (int32_t)f(l);
    __builtin_memcpy(&v, t, sizeof v);
    return v;
  } else return (int32_t)f(0);
}
// The same integer in all lanes, and integers that count up from lane to lane.
template <class V> INL typename of<V>::i alike(long x) {
  if constexpr (std::is_same_v<V, vf>) return (int32_t)x - vi{}; else return (int32_t)x;
}
template <class V> INL typename of<V>::i counted(long x) {
  if constexpr (std::is_same_v<V, vf>) {
    vi v{};
    for (int l = 0; l < W; ++l) v[l] = l;
    return v + (int32_t)x;
  } else return (int32_t)x;
}
template <class V, class F> INL typename of<V>::m truths(F f) {
  if constexpr (std::is_same_v<V, vf>) return ints<V>([&](int l) { return f(l) ? -1 : 0; });
  else return f(0);
}
// Rounds here: a product that several walks recompute must not melt into an addition in one of them.
template <class V> INL V rounded(V x) {
#if defined(__x86_64__)
  asm("" : "+v"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#endif
  return x;
}
template <class F> INL vf lanewise(vf x, F f) { for (int l = 0; l < W; ++l) x[l] = f(x[l]); return x; }
template <class F> INL float lanewise(float x, F f) { return f(x); }
template <class F> INL vf lanewise2(vf x, vf y, F f) { for (int l = 0; l < W; ++l) x[l] = f(x[l], y[l]); return x; }
template <class F> INL float lanewise2(float x, float y, F f) { return f(x, y); }

INL float vsel(bool m, float a, float b) { return m ? a : b; }
INL vf vsel(vi m, vf a, vf b) { return m ? a : b; }
INL int32_t ibits(float x) { int32_t i; __builtin_memcpy(&i, &x, 4); return i; }
INL vi ibits(vf x) { return (vi)x; }
INL float fbits(int32_t i) { float x; __builtin_memcpy(&x, &i, 4); return x; }
INL vf fbits(vi i) { return (vf)i; }
INL int32_t toint(float x) { return (int32_t)x; }
INL vi toint(vf x) { return __builtin_convertvector(x, vi); }
INL float tofloat(int32_t x) { return (float)x; }
INL vf tofloat(vi x) { return __builtin_convertvector(x, vf); }
template <class V> INL V vabs(V x) { return fbits(ibits(x) & 0x7fffffff); }
template <class V> INL V vcopysign(V x, V s) { return fbits((ibits(x) & 0x7fffffff) | (ibits(s) & (int32_t)0x80000000)); }

// As the instructions have it: the second operand where either is NaN.
INL float hwmax(float a, float b) { return a > b ? a : b; }
INL float hwmin(float a, float b) { return a < b ? a : b; }
INL float vsqrt(float x) { return __builtin_sqrtf(x); }
#if defined(__AVX512F__)
INL vf hwmax(vf a, vf b) { return __builtin_ia32_maxps512_mask(a, b, a, (unsigned short)-1, 4); }
INL vf hwmin(vf a, vf b) { return __builtin_ia32_minps512_mask(a, b, a, (unsigned short)-1, 4); }
INL vf vsqrt(vf a) { return __builtin_ia32_sqrtps512_mask(a, a, (unsigned short)-1, 4); }
#elif defined(__AVX__)
INL vf hwmax(vf a, vf b) { return __builtin_ia32_maxps256(a, b); }
INL vf hwmin(vf a, vf b) { return __builtin_ia32_minps256(a, b); }
INL vf vsqrt(vf a) { return __builtin_ia32_sqrtps256(a); }
#elif defined(__SSE__)
INL vf hwmax(vf a, vf b) { return __builtin_ia32_maxps(a, b); }
INL vf hwmin(vf a, vf b) { return __builtin_ia32_minps(a, b); }
INL vf vsqrt(vf a) { return __builtin_ia32_sqrtps(a); }
#else
INL vf hwmax(vf a, vf b) { return a > b ? a : b; }
INL vf hwmin(vf a, vf b) { return a < b ? a : b; }
INL vf vsqrt(vf a) { return lanewise(a, [](float x) { return __builtin_sqrtf(x); }); }
#endif
// NaN wins, as in the framework.
template <class V> INL V vmax(V a, V b) { return vsel(a != a, a, hwmax(a, b)); }
template <class V> INL V vmin(V a, V b) { return vsel(a != a, a, hwmin(a, b)); }
// Against bounds that are not NaN one instruction does.
template <class V> INL V vrelu(V x) { return hwmax(V{}, x); }
template <class V> INL V vclamp(V x, float lo, float hi) { return hwmin(to<V>(hi), hwmax(to<V>(lo), x)); }
template <class V> INL V vrsqrt(V x) { return 1.f / vsqrt(x); }
// Lanes exchanged at distance h: after log2 W steps each lane holds the result of all.
INL vf vswap(vf v, int h) {
  vi lane;
  for (int l = 0; l < W; ++l) lane[l] = l ^ h;
  return __builtin_shuffle(v, lane);
}
template <class R> INL float vacross(vf v) {
  v = R::join(v, vswap(v, 1));
  v = R::join(v, vswap(v, 2));
  if constexpr (W > 4) v = R::join(v, vswap(v, 4));
  if constexpr (W > 8) v = R::join(v, vswap(v, 8));
  return v[0];
}

// 2^k times p in two factors, so that results reach infinity and the subnormals.
template <class V> INL V vscale(V p, V k) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, vf>) return __builtin_ia32_scalefps512_mask(p, k, p, (unsigned short)-1, 4);
#endif
  auto i = toint(k); auto a = i >> 1; auto b = i - a;
  return p * fbits((a + 127) << 23) * fbits((b + 127) << 23);
}
// x = k ln2 + r with |r| <= ln2 / 2; the bounds lie past overflow and the last subnormal. NaN stays.
template <class V> INL V vreduce(V x, V& k) {
  x = hwmin(to<V>(90.f), hwmax(to<V>(-105.f), x));
  k = (x * 1.44269504f + 12582912.f) - 12582912.f;
  V r = x - k * 0.693359375f;
  return r + k * 2.12194440e-4f;
}
// e^r - 1 on the reduced range; minimax fits, relative error 4e-9.
template <class V> INL V vexpm1_reduced(V r) {
  V q = 0.00139517174f * r + 0.00836959854f;
  q = q * r + 0.0416661873f; q = q * r + 0.166665122f; q = q * r + 0.5f;
  return (q * r) * r + r;
}
template <class V> INL V vexp(V x) { V k, r = vreduce(x, k); return vscale(vexpm1_reduced(r) + 1.f, k); }
template <class V> INL V vexpm1(V x) {
  V k, r = vreduce(hwmin(to<V>(88.72284f), x), k);
  // 2^k alone overflows at k = 128, half of it does not.
  V half = vscale(to<V>(0.5f), k), p = vexpm1_reduced(r);
  V y = ((half - 0.5f) + half * p) * 2.f;
  y = vsel(x > 88.72284f, to<V>(INFINITY), y);
  return vsel(k == 0.f, vsel(x == 0.f, x, p), y);
}
// m in [sqrt 1/2, sqrt 2) and e with x = m 2^e.
template <class V> INL V vlog(V x) {
  auto tiny = x < 1.17549435e-38f;
  V z = vsel(tiny, x * 33554432.f, x);
  auto i = ibits(z) - 0x3f3504f3;
  V e = tofloat(i >> 23) - vsel(tiny, to<V>(25.f), V{});
  V f = fbits((i & 0x7fffff) + 0x3f3504f3) - 1.f;
  V q = 0.0694840923f * f - 0.118443847f;
  q = q * f + 0.118872307f; q = q * f - 0.123765521f; q = q * f + 0.142158821f; q = q * f - 0.166695833f;
  q = q * f + 0.200023636f; q = q * f - 0.249999821f; q = q * f + 0.333333075f;
  V s = f * f;
  V y = (q * f - 0.5f) * s + e * -2.12194440e-4f;
  y = (y + f) + e * 0.693359375f;
  y = vsel(x == 0.f, to<V>(-INFINITY), vsel(x < 0.f, to<V>(NAN), y));
  return vsel(x <= 3.40282347e38f, y, x);
}
// Exact to rounding: the error of 1 + x is put back.
template <class V> INL V vlog1p(V x) {
  V w = x + 1.f;
  V d = x - (w - 1.f);
  V y = vlog(w) + vsel(vabs(x) < 1.f, d / w, V{});
  return vsel(x > -1.f, vsel(x <= 3.40282347e38f, vsel(vabs(x) < 5.96e-8f, x, y), x), vlog(w));
}
template <class V> INL V vtanh(V x) {
  V s = x * x;
  V q = -0.00571703678f * s + 0.0206505787f;
  q = q * s - 0.0537434965f; q = q * s + 0.133314908f; q = q * s - 0.333332837f;
  V small = (q * s) * x + x;
  V a = vabs(x), big = 1.f - 2.f / (vexp(a + a) + 1.f);
  return vsel(a < 0.625f, small, vcopysign(big, x));
}
template <class V> INL V vsigmoid(V x) { return 1.f / (1.f + vexp(-x)); }
template <class V> INL V vsilu(V x) { return x / (1.f + vexp(-x)); }
template <class V> INL V verf(V x) {
  V s = x * x;
  V p = 8.34522507e-05f * s - 0.00081374374f;
  p = p * s + 0.00520063424f; p = p * s - 0.0268592704f; p = p * s + 0.112836942f; p = p * s - 0.376126349f;
  p = p * s + 0.128379166f;
  V t = hwmin(to<V>(4.f), vabs(x));
  V q = 1.18854614e-05f * t - 0.000329309318f;
  q = q * t + 0.00366872479f; q = q * t - 0.0238171965f; q = q * t + 0.106300369f; q = q * t + 0.635113239f;
  q = q * t + 0.128657788f;
  V big = 1.f - vexp(-(q * t + t));
  return vsel(t < 0.93f, p * x + x, vsel(x != x, x, vcopysign(big, x)));
}
template <class V> INL V vgelu(V x) { return (0.5f * x) * (1.f + verf(x * 0.707106781f)); }
template <class V> INL V vgelu_tanh(V x) {
  V u = 0.797884561f * (x + 0.044715f * (x * x * x));
  return (0.5f * x) * (1.f + vtanh(u));
}
template <class V> INL V vsoftplus(V x, float beta = 1.f, float threshold = 20.f) {
  V z = x * beta;
  return vsel(z > threshold, x, vlog1p(vexp(z)) / beta);
}
// x tanh(log(1 + e)) with e = exp(x), without the two calls: tanh(log(w)) = (w^2 - 1) / (w^2 + 1).
template <class V> INL V vmish(V x) {
  V e = vexp(hwmin(to<V>(20.f), x)), n = e * (e + 2.f);
  return vsel(x > 20.f, x, x * (n / (n + 2.f)));
}
template <int N, class V> INL V vpowi(V x) {
  if constexpr (N < 0) return 1.f / vpowi<-N>(x);
  else if constexpr (N == 0) return to<V>(1.f);
  else if constexpr (N == 1) return x;
  else if constexpr (N % 2) return vpowi<N - 1>(x) * x;
  else { V h = vpowi<N / 2>(x); return h * h; }
}
template <class V> INL V vpow(V x, V y) {
  return lanewise2(x, y, [](float a, float b) { return __builtin_powf(a, b); });
}
template <class V> INL V vfmod(V x, V y) {
  return lanewise2(x, y, [](float a, float b) { return __builtin_fmodf(a, b); });
}

// What has no vector form here goes lane by lane through the library.
#define LANEWISE(F) template <class V> INL V v##F(V x) { return lanewise(x, [](float v) { return __builtin_##F##f(v); }); }
LANEWISE(exp2) LANEWISE(log2) LANEWISE(log10) LANEWISE(sin) LANEWISE(cos) LANEWISE(tan) LANEWISE(atan) LANEWISE(sinh) LANEWISE(cosh) LANEWISE(floor) LANEWISE(ceil)
#undef LANEWISE

// What a row is reduced by.
struct Sum {
  static constexpr float identity = 0.f;
  static constexpr bool idempotent = false;
  template <class V> INL V join(V a, V b) { return a + b; }
};
struct Max {
  static constexpr float identity = -INFINITY;
  static constexpr bool idempotent = true;
  template <class V> INL V join(V a, V b) { return vmax(a, b); }
};
struct Min {
  static constexpr float identity = INFINITY;
  static constexpr bool idempotent = true;
  template <class V> INL V join(V a, V b) { return vmin(a, b); }
};
struct Prod {
  static constexpr float identity = 1.f;
  static constexpr bool idempotent = false;
  template <class V> INL V join(V a, V b) { return a * b; }
};
INL float hsum(vf v) { return vacross<Sum>(v); }
INL float hmax(vf v) { return vacross<Max>(v); }
INL float hmin(vf v) { return vacross<Min>(v); }
// Lanes before `n` become `fill`: for the last vector of a row, which overlaps its neighbour.
INL vf vmask_low(vf v, int n, float fill) {
  vi lane;
  for (int l = 0; l < W; ++l) lane[l] = l;
  return vsel(lane < n, splat(fill), v);
}
// Calls f with a vector's tag and a column until `cols` is covered; the last vector overlaps.
template <int U, class F> INL void along(long cols, F f) {
  long c = 0;
  for (; c + U * W <= cols; c += U * W)
    for (int u = 0; u < U; ++u) f(vf{}, c + u * W);
  for (; c + W <= cols; c += W) f(vf{}, c);
  if (c < cols) {
    if (cols >= W) f(vf{}, cols - W);
    else for (; c < cols; ++c) f(0.f, c);
  }
}
// Several reductions of one walk, side by side.
template <class... R> struct Reducers {
  static constexpr int n = sizeof...(R);
  template <class V> INL void clear(V* a) { int j = 0; ((a[j++] = to<V>(R::identity)), ...); }
  template <class V> INL void join(V* a, const V* b) { int j = 0; ((a[j] = R::join(a[j], b[j]), ++j), ...); }
  INL void hide(vf* v, int low) {
    int j = 0;
    ((v[j] = R::idempotent ? v[j] : vmask_low(v[j], low, R::identity), ++j), ...);
  }
  INL void across(const vf* a, const float* rest, float* r) {
    int j = 0;
    ((r[j] = R::join(vacross<R>(a[j]), rest[j]), ++j), ...);
  }
};
// Partial sums are folded into a total this often: the error grows with the run, not with the row.
constexpr long RUN = 64;
// Reduces value(tag, m, c, v), which fills v[0 .. R::n), over M x C, with U accumulators each.
template <class R, int U, class F> INL void reduce_row(long M, long C, float* r, F value) {
  vf total[R::n], v[R::n];
  float rest[R::n], x[R::n];
  R::clear(total);
  R::clear(rest);
  for (long m = 0; m < M; ++m) {
    long c = 0;
    while (c + W <= C) {
      vf acc[U][R::n];
      for (int u = 0; u < U; ++u) R::clear(acc[u]);
      const long end = C - c > RUN * U * W ? c + RUN * U * W : C;
      for (; c + U * W <= end; c += U * W)
        for (int u = 0; u < U; ++u) { value(vf{}, m, c + u * W, v); R::join(acc[u], v); }
      for (; c + W <= end; c += W) { value(vf{}, m, c, v); R::join(acc[0], v); }
      for (int u = 0; u < U; ++u) R::join(total, acc[u]);
    }
    if (c < C) {
      if (C >= W) { value(vf{}, m, C - W, v); R::hide(v, int(W - (C - c))); R::join(total, v); }
      else for (; c < C; ++c) { value(0.f, m, c, x); R::join(rest, x); }
    }
  }
  R::across(total, rest, r);
}
