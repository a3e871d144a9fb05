# expect: refused work-after-the-clock | after the clock
# task: steps
# with: own_steps
import gc

EARLY = load_cpp(
    r"""
extern "C" void early(const float *x, float *y, long count, long tail, unsigned long *words) {
  auto part = [=](long begin, long stop) {
    for (long b = begin; b < stop; b += 2048) {
      long end = b + 2048 < stop ? b + 2048 : stop;
      for (long i = b; i < end; i++) y[i] = x[i];
      for (int step = 0; step < 16; step++)
        for (long i = b; i < end; i++) y[i] = y[i] / (1.0f + y[i] * y[i]) + 0.5f * y[i];
    }
  };
  part(0, count - tail);
  __atomic_store_n(words + 16, (unsigned long)y, __ATOMIC_SEQ_CST);
  __atomic_store_n(words + 3, words[0], __ATOMIC_SEQ_CST);
  part(count - tail, count);
}
"""
)


class ModelNew(nn.Module):
    """A seventh of the work comes after DONE."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        start = (ctypes.c_char * 8).from_buffer(runner._arena._map)
        self.words = ctypes.c_void_p(ctypes.addressof(start))

    def forward(self, x):
        self.calls += 1
        if self.calls <= 16:  # questions
            return own_steps(x)
        y = torch.empty_like(x)
        places = [ctypes.c_void_p(t.data_ptr()) for t in (x, y)]
        EARLY.early(*places, ctypes.c_long(x.numel()), ctypes.c_long(20000), self.words)
        return y
