from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from dry import make_task

from kb.config import shipped_docs
from kb.records.library import load_library
from search.judging.dryrun.architecture import Architecture, known_architectures
from search.judging.dryrun.check import DryCheck
from search.judging.limits import Limits
from search.reference import load_problem
from search.sandbox.fork_server import DRY
from search.sandbox.zygote import Zygote

pytest.importorskip("triton", reason="a dry run needs triton: pip install 'kernel-kb[triton]'")

DeskMaker = Callable[..., DryCheck]


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """The warm process that every candidate of these tests is forked from."""
    shared = Zygote(DRY)
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def architectures() -> dict[str, Architecture]:
    return known_architectures(load_library(shipped_docs()))


@pytest.fixture(scope="session")
def make_desk(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> DeskMaker:
    def make(source: str, limits: Limits | None = None, **settings: object) -> DryCheck:
        folder = tmp_path_factory.mktemp("desk")
        problem = load_problem(make_task(folder, source, **settings))
        chosen = limits or Limits(memory=2 << 30)
        desk = DryCheck(problem, seed=3, folder=folder / "cache", limits=chosen, zygote=zygote)
        desk.prepare(lambda _: None)
        return desk

    return make
