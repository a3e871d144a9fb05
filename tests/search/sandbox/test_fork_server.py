"""The warm process that runners are forked from."""

from __future__ import annotations

import os

import pytest

from search.sandbox.zygote import Child, Zygote


@pytest.mark.slow
def test_a_fork_server_that_was_begun_is_the_one_that_answers() -> None:
    zygote = Zygote()
    assert not zygote.warm
    try:
        zygote.begin()
        pid = zygote.pid
        assert pid is not None
        zygote.begin()
        assert zygote.pid == pid
        log = os.memfd_create("log")
        child = zygote.run({"op": "unknown"}, [log])
        assert zygote.wait(child) != 0
        assert zygote.warm
        assert zygote.pid == pid
    finally:
        zygote.close()
    assert zygote.pid is None
    assert not zygote.warm


@pytest.mark.slow
def test_what_was_killed_is_waited_for_when_it_must_be_gone() -> None:
    zygote = Zygote()
    try:
        children = [Child(zygote, {"op": "unknown"}, []) for _ in range(2)]
        for child in children:
            child.kill()
        assert all(child.handle >= 0 for child in children)
        zygote.reap(1)
        assert [child.handle >= 0 for child in children] == [False, True]
        zygote.reap()
        assert children[1].handle < 0
    finally:
        zygote.close()
