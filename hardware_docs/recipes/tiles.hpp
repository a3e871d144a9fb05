// AMX's tiles of Intel processors (Sapphire Rapids and later), and float32 numbers as sums of three bfloat16 numbers.
#ifndef KB_TILES
#define KB_TILES
#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#endif

// A tile has 16 rows of 64 bytes. Four accumulate (0 to 3), two hold 16 rows of 32 terms (4 and 5), two hold 16 pairs of terms
// by 16 columns (6 and 7).
constexpr long TILE = 512;  // numbers of two bytes

// What tiles compute, in loops, for processors without them. Strides are in bytes.
struct Loops {
  float sums[4][16][16], a[2][16][32], b[2][32][16];
  template <int T> void zero() { std::memset(sums[T], 0, sizeof sums[T]); }
  template <int T> void load(const void* from, long stride = 64) { fill(T, static_cast<const char*>(from), stride); }
  template <int C, int A, int B> void dot() { add(sums[C], a[A - 4], b[B - 6]); }
  template <int T> void store(float* to, long stride) {
    for (int r = 0; r < 16; ++r) std::memcpy(reinterpret_cast<char*>(to) + r * stride, sums[T][r], 64);
  }
  __attribute__((noinline)) void fill(int tile, const char* from, long stride) {
    for (int r = 0; r < 16; ++r)
      for (int e = 0; e < 32; ++e) {
        b16 x;
        std::memcpy(&x, from + r * stride + 2 * e, 2);
        if (tile < 6) a[tile - 4][r][e] = widened(x);
        else b[tile - 6][2 * r + e % 2][e / 2] = widened(x);
      }
  }
  __attribute__((noinline)) static void add(float (*to)[16], const float (*a)[32], const float (*b)[16]) {
    for (int r = 0; r < 16; ++r)
      for (int k = 0; k < 32; ++k)
        for (int c = 0; c < 16; ++c) to[r][c] += a[r][k] * b[k][c];
  }
};

#if defined(__AMX_BF16__) && defined(__linux__)
struct Tiles {
  struct Shape { uint8_t palette, start, none[14]; uint16_t bytes[16]; uint8_t rows[16]; };
  Tiles() {
    Shape shape{};
    shape.palette = 1;
    for (int t = 0; t < 8; ++t) shape.bytes[t] = 64, shape.rows[t] = 16;
    asm volatile("ldtilecfg %0" ::"m"(shape));
  }
  ~Tiles() { asm volatile("tilerelease"); }
  template <int T> void zero() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }
  template <int T> void load(const void* from, long stride = 64) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B> void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int T> void store(float* to, long stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
};
INL bool tiles_permitted() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }  // for this process
#else
typedef Loops Tiles;
INL bool tiles_permitted() { return true; }
#endif

// Two times sixteen numbers as three parts each, `apart` numbers from one part to the next: in pairs of x and y, or x before y.
template <bool PAIRS>
INL void cut(const float* x, const float* y, uint16_t* to, long apart = TILE) {
#if defined(__AVX512BW__)
  typedef uint16_t halves __attribute__((vector_size(64)));
  typedef uint32_t words __attribute__((vector_size(64)));
  halves order;
  for (int e = 0; e < 32; ++e) order[e] = PAIRS ? e % 2 * 32 + e / 2 * 2 + 1 : 2 * e + 1;
  vf p = vload(x), q = vload(y);
  for (int part = 0; part < 3; ++part) {
    const halves both = __builtin_shuffle((halves)p, (halves)q, order);
    std::memcpy(to + part * apart, &both, 64);
    p -= (vf)((words)p & 0xffff0000u);
    q -= (vf)((words)q & 0xffff0000u);
  }
#else
  for (int e = 0; e < 32; ++e) {
    float v = e < 16 ? x[e] : y[e - 16];
    for (int part = 0; part < 3; ++part) {
      uint32_t bits;
      float leading;
      std::memcpy(&bits, &v, 4);
      to[part * apart + (PAIRS ? 2 * (e % 16) + e / 16 : e)] = bits >> 16;
      bits &= 0xffff0000u;
      std::memcpy(&leading, &bits, 4);
      v -= leading;
    }
  }
#endif
}

// R by C tiles of a product of float32's accuracy: six of the nine products of parts, the small ones first. For each step
// `left(s, part)` and `right(s, part)` load tiles 4 and 5, 6 and 7.
template <int R, int C, class T, class Left, class Right>
INL void products(T& t, long steps, Left left, Right right) {
  const auto multiply = [&] {
    t.template dot<0, 4, 6>();
    if constexpr (C > 1) t.template dot<1, 4, 7>();
    if constexpr (R > 1) t.template dot<2, 5, 6>();
    if constexpr (R > 1 && C > 1) t.template dot<3, 5, 7>();
  };
  t.template zero<0>();
  t.template zero<1>();
  t.template zero<2>();
  t.template zero<3>();
  for (long s = 0; s < steps; ++s) {
    left(s, 2), right(s, 0), multiply();
    left(s, 1), multiply();
    right(s, 1), multiply();
    left(s, 0), multiply();
    right(s, 2), multiply();
    right(s, 0), multiply();
  }
}
#endif
