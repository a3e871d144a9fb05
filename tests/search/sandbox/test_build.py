import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.errors import ToolchainError
from search.languages import LANGUAGES
from search.sandbox import build
from search.sandbox.build import Builder, Gate, prune
from search.sandbox.faults import Fault
from search.sandbox.zygote import Child, Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


def _builder(zygote: Zygote, folder: Path, seconds: float = 30.0) -> Builder:
    return Builder(zygote, LANGUAGES.create("cpp"), folder, seconds)


def _parts(*sources: str) -> str:
    lines = (f"K{at} = load_cpp({source!r})" for at, source in enumerate(sources))
    return "\n".join(("from kb.native import load_cpp", *lines))


@pytest.mark.slow
def test_the_parts_of_a_candidate_share_one_budget_of_seconds(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    wait = Child.wait

    def noted(self: Child, seconds: float) -> int | None:
        given.append(seconds)
        return wait(self, seconds)

    monkeypatch.setattr(Child, "wait", noted)
    part = 'extern "C" int f() { return %d; }'
    _builder(zygote, tmp_path, seconds=30.0).build(_parts(part % 0, part % 1, part % 2))
    assert 30.0 >= given[0] > given[1] > given[2]


def test_parts_whose_time_is_up_are_not_begun_anew(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = Child.wait
    # As if each part ended just before it was looked at: the first takes all the time that there is.
    monkeypatch.setattr(Child, "wait", lambda self, _seconds: wait(self, 30.0))
    builder = _builder(zygote, tmp_path, seconds=0.001)
    with pytest.raises(Fault) as fault:
        builder.build(_parts(*(f'extern "C" int f() {{ return {n}; }}' for n in range(12))))
    assert fault.value.outcome.kind == "timed_out"
    assert len(list(tmp_path.glob("*.so"))) == 1


def test_a_compiler_that_is_killed_says_by_what(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = Child.wait

    def killed(self: Child, seconds: float) -> int | None:
        self.signal(signal.SIGKILL)
        return wait(self, seconds)

    monkeypatch.setattr(Child, "wait", killed)
    with pytest.raises(Fault) as fault:
        _builder(zygote, tmp_path).build(_parts('extern "C" int f() { return 1; }'))
    assert "the compiler was ended by SIGKILL" in fault.value.outcome.reason


def test_a_candidates_parts_together_are_bounded_in_size(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_TOGETHER", 3 << 20)
    large = 'extern "C" { char large%d[2 << 20] = {1}; }'
    builder = _builder(zygote, tmp_path)
    assert len(builder.build(_parts(large % 0))) == 1
    with pytest.raises(Fault) as fault:
        builder.build(_parts(large % 0, large % 1))
    assert "4 MiB" in fault.value.outcome.reason  # type: ignore[union-attr]


def test_builds_that_were_used_longest_ago_are_removed_beyond_the_quota(tmp_path: Path) -> None:
    now = time.time()
    for age, name in enumerate(("new", "newer", "old", "older", "oldest")):
        for suffix in (".so", ".log"):
            path = tmp_path / (name + suffix)
            path.write_bytes(bytes(1000))
            os.utime(path, (now - 10_000 * age, now - 10_000 * age))
    (tmp_path / "build-scratch").mkdir()
    prune(tmp_path, quota=6500)
    assert sorted(path.name for path in tmp_path.glob("*.so")) == ["new.so", "newer.so", "old.so"]
    assert len(list(tmp_path.glob("*.log"))) == 3
    prune(tmp_path, quota=0)
    # The newest may be on its way to a runner.
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "build-scratch",
        "new.log",
        "new.so",
    ]


def test_something_is_done_beside_a_compiler_and_not_where_none_runs(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, done = _builder(zygote, tmp_path), list[str]()
    source = _parts('extern "C" int f() { return 7; }')
    start = Child.__init__

    def noted(self: Child, *given: Any) -> None:
        start(self, *given)
        done.append("compiler")

    monkeypatch.setattr(Child, "__init__", noted)
    for _ in range(2):
        builder.build(source, lambda: done.append("beside"))
    assert done == ["compiler", "beside"]


def test_what_fails_beside_a_compiler_ends_it_and_is_not_the_folders_fault(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = Child.__init__, list[Child]()

    def noted(self: Child, *given: Any) -> None:
        start(self, *given)
        started.append(self)

    def fails() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Child, "__init__", noted)
    source = _parts('extern "C" int f() { return 8; }')
    with pytest.raises(ToolchainError, match=r"cannot be started.*Too many open files"):
        _builder(zygote, tmp_path).build(source, fails)
    zygote.reap()
    assert [child.handle for child in started] == [-1], "it has ended and is forgotten"
    assert not list(tmp_path.glob("build-*"))


def test_a_build_that_is_used_again_stays(zygote: Zygote, tmp_path: Path) -> None:
    builder = _builder(zygote, tmp_path)
    source = _parts('extern "C" int f() { return 1; }')
    (path,) = builder.build(source).values()
    os.utime(path, (1, 1))
    assert list(builder.build(source).values()) == [path]
    assert Path(path).stat().st_mtime > time.time() - 600


@pytest.mark.parametrize("size", [100, 70_000, 300_000, 3_000_000])
def test_a_request_of_any_length_reaches_the_zygote_whole(zygote: Zygote, size: int) -> None:
    cell = {"single": False, "readable": [], "writable": [], "memory": 1 << 30, "cpu_seconds": 9,
            "file_bytes": 1 << 20}  # fmt: skip
    words = ["x" * 1000] * (size // 1000)
    request = {"op": "build", "cell": cell, "command": ["/bin/true", *words], "folder": "/"}
    before = zygote.pid
    for _ in range(3):
        child = Child(zygote, request, [])
        assert child.wait(30) is not None
        child.kill()
    assert before in (None, zygote.pid)


def test_a_request_longer_than_any_is_refused_before_it_is_sent(zygote: Zygote) -> None:
    with pytest.raises(ValueError, match="a request of"):
        Child(zygote, {"op": "build", "text": "x" * (5 << 20)}, [])
    assert zygote.wait(1) == 9  # it answers still


@pytest.mark.parametrize("links", [True, False])
def test_builds_come_through_a_gate_by_their_names_and_leave_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    library = tmp_path / "native" / "key-1.so"
    gate = Gate(library.parent)
    library.write_bytes(b"code")
    (there,) = gate.admit({"key": str(library)}).values()
    assert Path(there).parent == gate.path
    assert Path(there).read_bytes() == b"code"
    assert (library.stat().st_nlink == 2) is links
    gate.close()
    assert not gate.path.exists()
    assert library.read_bytes() == b"code"
