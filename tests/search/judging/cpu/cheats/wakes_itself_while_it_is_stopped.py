# expect: refused|crashed|passed work-outside-the-clock,no-gain
# task: steps
# with: own_steps
import os

TIMER = load_cpp(
    r"""
#include <signal.h>
#include <string.h>
#include <time.h>
extern "C" int rouse() {
  struct sigevent event; memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL; event.sigev_signo = SIGCONT;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return 1;
  struct itimerspec every = {{0, 200000}, {0, 200000}};
  return timer_settime(timer, 0, &every, nullptr);
}
"""
)


class ModelNew(nn.Module):
    """SIGCONT from a timer of its own: some kernels deliver it to a process that is stopped."""

    def __init__(self):
        super().__init__()
        self.set = False

    def forward(self, x):
        if not self.set:
            self.set = TIMER.rouse() == 0
        return own_steps(x)
