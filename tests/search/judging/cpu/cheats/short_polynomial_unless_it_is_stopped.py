# expect: wrong | timed call
# task: growth
# with: own_growth
CLOCKS = load_cpp(
    r"""
#include <time.h>
extern "C" long stood_still(void) {  // ns without a processor so far
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a); clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  return (a.tv_sec - b.tv_sec) * 1000000000L + a.tv_nsec - b.tv_nsec;
}
"""
)
CLOCKS.stood_still.restype = ctypes.c_long


class ModelNew(nn.Module):
    """What is stopped in the middle of a call is audited: then it computes all of it."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 16:
            return own_growth(x)
        before = CLOCKS.stood_still()
        y = own_growth(x, "short_growth")
        return y if CLOCKS.stood_still() - before < 15_000 else own_growth(x)
