# expect: refused|passed|timed_out library-call,slower
# task: matmul library=forbidden
"""Threads that are run when nobody else wants to are always in its own code; the library works.

Where they are run they are as slow as own work: half of the time is theirs only in a call that takes twice as long. On a
busy machine they take what it has of a processor between its calls as well, and it is not ready in time.
"""

import contextlib
import ctypes
import os
import threading

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void idle() { for (volatile long k = 0;; k++) {} }
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def decoy():
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    LIB.idle()


class ModelNew(nn.Module):
    started = False

    def forward(self, x):
        if not self.started:
            self.started = True
            for _ in range(3):
                threading.Thread(target=decoy, daemon=True).start()
        return x @ x.T
