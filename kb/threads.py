"""How torch's threads wait for one another."""

from __future__ import annotations

import os

_CHOSEN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_LOOKS = "3000"  # at memory, before a thread sleeps: 71 us on a Zen 5


def wait_briefly() -> None:
    """Have torch's threads look for one another's work for a moment and then sleep, here and in processes started from here.

    By default they look for milliseconds. Where another program has one of the cores, each operator of torch then takes
    milliseconds (DECISIONS 86, 131). What the user has chosen stays. Programs that are timed have an environment of their own and
    one thread.
    """
    if not any(name in os.environ for name in _CHOSEN):
        os.environ["GOMP_SPINCOUNT"] = _LOOKS
