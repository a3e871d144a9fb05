# expect: refused work-outside-the-clock | in the interpreter
# task: three
import ctypes
import gc

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
static volatile uint64_t *W; static const float *X; static float *out[4096]; static uint64_t told; static int turn;
extern "C" void run(const float *x, float *y, long n) {
  for (long i = 0; i < n; i++) y[i] = 2 / (1 + expf(-x[i])) - x[i];
}
// Comes before the interpreter when the judge lets the process go on.
static void go(int) {
  uint64_t call = W[2];
  if (call != W[0] || call == told || W[7]) return;
  told = call;
  float *y = out[turn = (turn + 1) % 4096];
  run(X, y, 3);
  W[16] = (uint64_t)y;
  __atomic_store_n(&W[3], call, __ATOMIC_SEQ_CST);
}
extern "C" void lay(volatile uint64_t *w, const float *x, float **outs) {
  W = w; X = x; told = w[2];
  for (int i = 0; i < 4096; i++) out[i] = outs[i];
  struct sigaction act; memset(&act, 0, sizeof act); act.sa_handler = go; act.sa_flags = SA_RESTART;
  sigaction(SIGCONT, &act, 0);
}
extern "C" int which() { return turn; }
"""
LIB = load_cpp(SOURCE)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 20:
            runner = next(
                one for one in gc.get_objects() if type(one).__name__ == "Runner" and hasattr(one, "_arena")
            )
            start = (ctypes.c_char * 8).from_buffer(runner._arena._map)
            self.ys = [torch.zeros(3) for _ in range(4096)]
            table = (ctypes.c_void_p * 4096)(*[y.data_ptr() for y in self.ys])
            LIB.lay(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_void_p(x.data_ptr()), table)
        if self.calls > 20:
            return self.ys[LIB.which()]
        y = torch.empty(3)
        LIB.run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(3))
        return y
