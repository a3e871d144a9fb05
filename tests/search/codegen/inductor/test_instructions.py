from __future__ import annotations

import signal
import subprocess

import pytest

from search.codegen.inductor.instructions import compiler_flags, find_instructions


def test_instructions_are_found_once_and_where_nobody_waits_for_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Imported here: it takes two seconds, which every process of a test run would pay.
    cpu_vec_isa = pytest.importorskip("torch._inductor.cpu_vec_isa")
    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        find_instructions()
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a program was started again")

    monkeypatch.setattr(subprocess, "Popen", started)
    assert any(flag.startswith("-DCPU_CAPABILITY") for flag in compiler_flags())
