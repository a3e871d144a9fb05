// Enough of CUDA to run a kernel on a CPU: one thread at a time, each until it has to wait for others.
#undef _FORTIFY_SOURCE  // it takes a jump to another stack for an error
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> void __stcs(T* p, T v) { *p = v; }
inline float __int_as_float(int i) { float f; std::memcpy(&f, &i, 4); return f; }
inline unsigned __float_as_uint(float f) { unsigned i; std::memcpy(&i, &f, 4); return i; }
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) { return {x, y, z, w}; }
inline float half_to_float(unsigned short bits) { _Float16 h; std::memcpy(&h, &bits, 2); return (float)h; }
inline unsigned short float_to_half(float f) { const _Float16 h = (_Float16)f; unsigned short bits; std::memcpy(&bits, &h, 2); return bits; }

namespace cpu {
struct Meeting {
  int due = 0, here = 0;
  long turn = 0;
};
struct Block {
  int rank = 0;
  unsigned number = 0;
  Meeting all;
  std::vector<Meeting> warps;
  std::map<int, std::vector<char>> shared;
  std::vector<char> lanes;  // 8 bytes a thread, for shuffles
};
struct Fiber {
  ucontext_t context;  // to begin with; from then on it goes on by `jump`, which asks nothing of the kernel
  jmp_buf jump;
  bool begun = false;
  std::unique_ptr<char[]> stack;
  unsigned id = 0;
  Block* block = nullptr;
  bool over = false;
  long turn = 0;  // of the cluster, when it arrived
};
inline Fiber* now = nullptr;
inline jmp_buf home;
inline Meeting cluster;
inline std::vector<Block> blocks;
inline const std::function<void()>* body = nullptr;
inline unsigned size = 0;  // blocks of the grid

inline void yield() {
  if (!_setjmp(now->jump)) _longjmp(home, 1);
}
__attribute__((noinline)) inline void go_on() {
  if (_setjmp(home)) return;
  if (now->begun) _longjmp(now->jump, 1);
  now->begun = true;
  setcontext(&now->context);
}
inline long arrive(Meeting& m) {
  const long turn = m.turn;
  if (++m.here == m.due) m.here = 0, ++m.turn;
  return turn;
}
inline void meet(Meeting& m) {
  for (const long turn = arrive(m); m.turn == turn;) yield();
}
inline void run() {
  (*body)();
  now->over = true;
  yield();
}
template <class T> T& shared(int place) {
  auto& bytes = now->block->shared[place];
  if (bytes.empty()) bytes.assign(sizeof(T) + 64, char(0xff));
  return *reinterpret_cast<T*>((reinterpret_cast<size_t>(bytes.data()) + 63) / 64 * 64);
}
// The place in another block's shared memory that `p` is in this one's.
template <class T> T* there(T* p, unsigned rank) {
  for (auto& [place, bytes] : now->block->shared) {
    const char* at = reinterpret_cast<const char*>(p);
    if (at < bytes.data() || at >= bytes.data() + bytes.size()) continue;
    const size_t from = (64 - reinterpret_cast<size_t>(bytes.data()) % 64) % 64;
    auto& other = blocks[rank].shared[place];
    if (other.empty()) other.assign(bytes.size(), char(0xff));
    const size_t to = (64 - reinterpret_cast<size_t>(other.data()) % 64) % 64;
    return reinterpret_cast<T*>(other.data() + to + (at - bytes.data() - from));
  }
  std::abort();
}
// Runs a grid, the blocks of a cluster side by side.
inline void launch(unsigned grid, unsigned threads, unsigned together, const std::function<void()>& kernel) {
  body = &kernel, size = grid;
  for (unsigned first = 0; first < grid; first += together) {
    cluster = Meeting{int(together * threads)};
    blocks = std::vector<Block>(together);
    std::vector<Fiber> fibers(together * threads);
    for (unsigned i = 0; i < fibers.size(); ++i) {
      Fiber& f = fibers[i];
      Block& b = blocks[i / threads];
      b.rank = i / threads, b.number = first + i / threads, b.all.due = threads;
      b.warps.resize(threads / 32, Meeting{32}), b.lanes.resize(8 * threads);
      f.id = i % threads, f.block = &b, f.stack.reset(new char[1 << 16]);
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = 1 << 16;
      f.context.uc_link = nullptr;  // it never returns, see `run`
      makecontext(&f.context, run, 0);
    }
    for (size_t left = fibers.size(); left;) {
      left = 0;
      for (Fiber& f : fibers)
        if (!f.over) {
          now = &f;
          go_on();
          left += !f.over;
        }
    }
  }
}
}  // namespace cpu

struct Thread { struct { operator int() const { return int(cpu::now->id); } } x; };
struct BlockNumber { struct { operator int() const { return int(cpu::now->block->number); } } x; };
struct GridSize { struct { operator int() const { return int(cpu::size); } } x; };
inline Thread threadIdx;
inline BlockNumber blockIdx;
inline GridSize gridDim;
inline void __syncthreads() { cpu::meet(cpu::now->block->all); }
inline void __threadfence() {}
template <class T> T __shfl_xor_sync(unsigned, T v, int mask) {
  auto& block = *cpu::now->block;
  const unsigned id = cpu::now->id;
  std::memcpy(&block.lanes[8 * id], &v, sizeof v);
  cpu::meet(block.warps[id / 32]);
  std::memcpy(&v, &block.lanes[8 * (id ^ unsigned(mask))], sizeof v);
  cpu::meet(block.warps[id / 32]);
  return v;
}
template <class T> T __shfl_sync(unsigned, T v, int from) {
  auto& block = *cpu::now->block;
  const unsigned id = cpu::now->id;
  std::memcpy(&block.lanes[8 * id], &v, sizeof v);
  cpu::meet(block.warps[id / 32]);
  std::memcpy(&v, &block.lanes[8 * (id / 32 * 32 + unsigned(from))], sizeof v);
  cpu::meet(block.warps[id / 32]);
  return v;
}
template <class T> T __shfl_up_sync(unsigned, T v, int by) {
  auto& block = *cpu::now->block;
  const unsigned id = cpu::now->id;
  std::memcpy(&block.lanes[8 * id], &v, sizeof v);
  cpu::meet(block.warps[id / 32]);
  if (int(id % 32) >= by) std::memcpy(&v, &block.lanes[8 * (id - unsigned(by))], sizeof v);
  cpu::meet(block.warps[id / 32]);
  return v;
}
inline unsigned atomicInc(unsigned* p, unsigned most) {
  const unsigned old = *p;
  *p = old >= most ? 0 : old + 1;
  return old;
}
// What the prelude says in PTX.
inline float nan_wins(float a, float b, bool greater) { return a != a ? a : b != b ? b : (greater ? a > b : a < b) ? a : b; }
inline void cluster_arrive() { cpu::now->turn = cpu::arrive(cpu::cluster); }
inline void cluster_wait() {
  while (cpu::cluster.turn == cpu::now->turn) cpu::yield();
}
template <class T> void cluster_write(T* place, unsigned rank, T v) { *cpu::there(place, rank) = v; }
struct Arrivals { long due; unsigned odd; bool armed; };
// As on a device, a time is over when its bytes are announced and here, and the next one's may come before it is announced.
inline void arrivals_look(Arrivals& a) {
  if (a.armed && a.due == 0) a.armed = false, a.odd ^= 1;
}
inline void arrivals_begin(Arrivals* a) { *a = Arrivals{0, 0, false}; }
inline void arrivals_expect(Arrivals* a, unsigned bytes) { a->due += bytes, a->armed = true, arrivals_look(*a); }
inline void arrivals_wait(Arrivals* a, unsigned odd) {
  while (a->odd == odd) cpu::yield();
}
template <int N> void cluster_send(float* place, Arrivals* counted, unsigned rank, const float (&v)[N]) {
  std::memcpy(cpu::there(place, rank), v, sizeof v);
  Arrivals& there = *cpu::there(counted, rank);
  there.due -= long(sizeof v), arrivals_look(there);
}
