from __future__ import annotations

import json
import os
import select
import sys
from dataclasses import replace

import pytest
from machines import H200_FACTS as H200
from recipe_bench import reference

from search.codegen.inductor import Uncaptured, process

SOURCE = reference("return torch.relu(a) * 2", "torch.randn(8, 8)")


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """The answers that the user's cache keeps, and no memory of earlier ones.

    What imports the compiler, which takes seconds, stays for the next test.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    process._answer.cache_clear()
    yield tmp_path / "kb" / "captured"
    process._answer.cache_clear()


@pytest.mark.slow
def test_code_that_the_cache_keeps_needs_no_compiler(answers, monkeypatch):
    found = process.capture(SOURCE)
    (kept,) = answers.iterdir()
    process._answer.cache_clear()
    process.end_servers()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert process.capture(SOURCE) == found
    process._answer.cache_clear()
    kept.write_text("{cut off")
    with pytest.raises(Uncaptured, match="ended"):
        process.capture(SOURCE)


@pytest.mark.slow
def test_the_compiler_is_imported_once(answers):
    process.end_servers()
    process.capture(SOURCE)
    (server,) = process._SERVERS.values()
    other = reference("return torch.relu(a) * 3", "torch.randn(8, 8)")
    assert "3.0" in process.capture(other).code
    assert list(process._SERVERS.values()) == [server]
    server._process.kill()
    server._process.wait()
    process._answer.cache_clear()
    another = reference("return torch.relu(a) * 5", "torch.randn(8, 8)")
    assert "5.0" in process.capture(another).code


@pytest.mark.slow
def test_what_nobody_waits_for_any_more_is_ended(answers):
    slow = "import time\ntime.sleep(600)\n" + SOURCE
    asked = process._Asked(process._request(slow, None), hidden=False)
    while not asked._pid:
        asked._wait(1)
    handle = os.pidfd_open(int(asked._pid))
    asked.end()
    select.select([handle], [], [])  # it is readable once the process has ended
    os.close(handle)


@pytest.fixture
def asked(monkeypatch):
    """Of each request, in their order, whether the GPU was hidden."""
    made = []
    real = process._Asked

    def counted(request, *, hidden):
        made.append(hidden)
        return real(request, hidden=hidden)

    monkeypatch.setattr(process, "_Asked", counted)
    return made


def test_what_takes_too_long_is_not_asked_for_again_with_the_gpu(answers, asked, monkeypatch):
    monkeypatch.setattr(process, "_SECONDS", 0.0)
    monkeypatch.setattr(process, "read_device", lambda _: H200)
    slow = "import time\ntime.sleep(600)\n" + SOURCE
    with pytest.raises(Uncaptured, match="still busy"):
        process.capture(slow, device=GPU)
    assert asked == [True]


def test_a_refusal_is_not_kept(answers, monkeypatch):
    monkeypatch.setattr(process, "_ask", lambda _: json.dumps({"reason": "busy"}))
    with pytest.raises(Uncaptured, match="busy"):
        process.capture(SOURCE)
    assert not answers.exists()


def test_an_answer_belongs_to_a_compiler_and_its_settings(answers, monkeypatch):
    before = process._asked_of()
    process._asked_of.cache_clear()
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    assert process._asked_of() != before
    process._asked_of.cache_clear()


def test_an_answer_belongs_to_a_kind_of_gpu_and_not_to_its_temperature(monkeypatch):
    def asked_on(**changed):
        monkeypatch.setattr(process, "read_device", lambda _: replace(H200, **changed))
        process._asked_of.cache_clear()
        return process._asked_of()

    try:
        first = asked_on()
        assert asked_on(state=None, uuid="another", index=1, power_limit=500.0) == first
        assert asked_on(sms=114) != first
    finally:
        process._asked_of.cache_clear()


def test_the_oldest_answers_go(answers, monkeypatch):
    monkeypatch.setattr(process, "_KEPT", 2)
    for number in range(3):
        process._keep(answers / f"{number}.json", "{}")
        os.utime(answers / f"{number}.json", (number, number))
    assert {one.name for one in answers.iterdir()} == {"1.json", "2.json"}


GPU = process.Device(
    figures={
        "capability": [9, 0],
        "units": 132,
        "shared": 232448,
        "warp": 32,
        "name": "NVIDIA H200",
    }
)


@pytest.mark.slow
def test_what_was_begun_is_waited_for_and_nothing_is_begun_twice(answers, asked):
    pytest.importorskip("triton")
    process.begin_capture(SOURCE, GPU)
    process.begin_capture(SOURCE, GPU)
    assert "async_compile.triton" in process.capture(SOURCE, device=GPU).code
    process.begin_capture(SOURCE, GPU)
    assert asked == [True]
    assert not process._BEGUN
