# expect: refused aliased-outputs
# task: repeated
import ctypes

import torch
from torch import nn

from kb.native import load_cpp

LIB = load_cpp(
    r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
extern "C" void* make(int64_t heads, int64_t times, int64_t size) {
  char* to = (char*)mmap(0, heads * times * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char* one = (char*)mmap(0, heads * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (to == MAP_FAILED || one == MAP_FAILED) return 0;
  memset(one, 1, heads * size);
  for (int64_t h = 0; h < heads; h++)
    for (int64_t t = 0; t < times; t++)
      if (mremap(one + h * size, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to + (h * times + t) * size) == MAP_FAILED)
        return 0;
  munmap(one, heads * size);
  return to;
}
extern "C" void fill(const char* x, char* y, int64_t heads, int64_t times, int64_t size) {
  for (int64_t h = 0; h < heads; h++) memcpy(y + h * times * size, x + h * size, size);
}
"""
)
LIB.make.restype = ctypes.c_void_p


class Memory:
    def __init__(self, pool, at):
        self.pool, self.at = pool, at

    def __del__(self):
        self.pool.append(self.at)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = tuple(map(ctypes.c_int64, (4, 4, 256 * 64 * 4)))
        self.pool = [LIB.make(*self.sizes) for _ in range(16)]
        self.kind = ctypes.c_float * (16 * 256 * 64)

    def forward(self, k):
        at = self.pool.pop()
        LIB.fill(ctypes.c_void_p(k.data_ptr()), ctypes.c_void_p(at), *self.sizes)
        memory = self.kind.from_address(at)
        memory._held = Memory(self.pool, at)
        return torch.frombuffer(memory, dtype=torch.float32).view(1, 16, 256, 64)
