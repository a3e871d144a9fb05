from collections.abc import Callable, Iterator

import pytest
from machines import BOUNDLESS as TARGET

from search.judging.corpus.cases import reference_source
from search.judging.corpus.run import CorpusRunner
from search.judging.cpu.judge import CpuJudge
from search.judging.limits import Limits
from search.reference import load_problem
from search.sandbox.zygote import Zygote
from search.task import Task

LIMITS = Limits(
    build_seconds=4.0,
    call_seconds=1.0,
    timing_seconds=0.1,
    thorough_seconds=0.4,
    compile=False,
    memory=1 << 30,
)
NORM = reference_source("cpu", "norm")


@pytest.fixture(scope="session")
def warm() -> Iterator[Zygote]:
    """The process that runners are forked from, for all judges but those that are told to have their own."""
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture(scope="session")
def make_judge(
    make_task: Callable[..., Task], warm: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., CpuJudge]]:
    folder = tmp_path_factory.mktemp("judge")
    made: list[CpuJudge] = []

    def make(
        source: str, limits: Limits = LIMITS, *, alone: bool = False, **settings: object
    ) -> CpuJudge:
        problem = load_problem(make_task(source, **settings))
        zygote = None if alone else warm
        judge = CpuJudge(problem, TARGET, folder=folder, limits=limits, zygote=zygote)
        made.append(judge)
        judge.prepare()
        return judge

    yield make
    for judge in made:
        judge.close()


@pytest.fixture(scope="module")
def corpus_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorpusRunner]:
    """Judges the corpus: a judge for each task, one after the other."""
    with CorpusRunner("cpu", tmp_path_factory.mktemp("court")) as corpus_judge:
        yield corpus_judge


@pytest.fixture(scope="session")
def norm(make_judge: Callable[..., CpuJudge]) -> CpuJudge:
    return make_judge(NORM)


@pytest.fixture(scope="session")
def norm_source() -> str:
    return NORM
