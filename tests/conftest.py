"""What all tests share: a real PostgreSQL server, databases of each kind on it, the processors that they run on."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# Several processes of a test run share its cores: threads of torch that spin while they wait for each other take
# them from whoever has work, and small operators take ten times as long. Candidates have an environment of their own.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# The first process of a test run times programs, see `BothEnds`: the others have what it leaves of the cores.
if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
    os.nice(10)

from postgres_server import NoServer, running_postgres
from sqlalchemy import Engine, create_engine, text

from kb.config import Home
from kb.database import open_engine

PROCESSORS = os.sched_getaffinity(0)


@pytest.fixture(autouse=True)
def processors_are_put_back() -> Iterator[None]:
    """A judge that is left on its runner's processor sees no call end: nor would those of all later tests."""
    yield
    left = os.sched_getaffinity(0)
    os.sched_setaffinity(0, PROCESSORS)
    assert left == PROCESSORS, "the test leaves this process on other processors than it had"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server, without the name of a database."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(running_postgres()).url
        except NoServer as error:
            pytest.skip(str(error))
        yield url


@pytest.fixture(scope="session")
def make_postgres_database(postgres: str) -> Callable[[], str]:
    """Return a function that makes an empty database and returns its URL."""
    numbers = itertools.count(1)

    def make() -> str:
        name = f"kb{next(numbers)}"
        server = create_engine(f"{postgres}/postgres", isolation_level="AUTOCOMMIT")
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        server.dispose()
        return f"{postgres}/{name}"

    return make


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of compilers' caches that tests share, as the runs of one user do: they are kept by content.

    Processes of one test run share it too.
    """
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "builds"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """An empty database of each kind that `kb` supports."""
    monkeypatch.delenv("KB_DATABASE", raising=False)
    if request.param == "postgresql":
        make = request.getfixturevalue("make_postgres_database")
        monkeypatch.setenv("KB_DATABASE", make())
    engine = open_engine(Home(tmp_path / "home"))
    yield engine
    engine.dispose()


# Tests with one of these, and those marked `timed`, time programs: one at a time on a machine.
JUDGING = Path(__file__).parent / "search" / "judging"
TIMING = {"corpus_judge", "make_judge", "norm", "office", "warm"}
# Where a cheat may pass that is timed beside another test.
ALONE = ("tests/search/judging/corpus/", "tests/search/judging/cpu/")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the part of the slow tests that is run."""
    parser.addoption(
        "--part",
        metavar="N/M",
        help="of the tests marked slow, run the N-th of M parts: a file is always in the same",
    )


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the slow tests of other parts out of a collection."""
    asked = config.getoption("--part")
    if not asked:
        return
    number, _, of = asked.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise pytest.UsageError(f"--part: expected N/M with N from 1 to M, found {asked!r}")

    def stays(item: pytest.Item) -> bool:
        file = item.nodeid.partition("::")[0]  # whose tests share what takes long to make
        slow = item.get_closest_marker("slow") is not None
        return not slow or zlib.crc32(file.encode()) % int(of) == int(number) - 1

    out = [item for item in items if not stays(item)]
    items[:] = [item for item in items if stays(item)]
    config.hook.pytest_deselected(items=out)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files that time programs first, and of the others those that take long last; see `BothEnds`.

    Commands that time programs may fail by what else the machine does, one in some thousands: they have a second
    attempt, which is told (an R among the dots). What fails twice has failed. The judge's own tests have one attempt:
    a cheat that passes now and then passes.
    """
    _leave_out(config, items)
    timed, slow = set(), set()
    for item in items:
        if item.get_closest_marker("timed") or TIMING & set(getattr(item, "fixturenames", ())):
            timed.add(item.path)
            if JUDGING not in item.path.parents:
                item.add_marker(pytest.mark.flaky(reruns=1))
        if item.get_closest_marker("slow"):
            slow.add(item.path)
    places = {
        path: (1 - (path in slow)) if path in timed else 2 + (path in slow)
        for path in {item.path for item in items}
    }
    items.sort(key=lambda item: places[item.path])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what is loaded by now out of collections, each of which walked six thousand tests and torch.

    The environment is kept as it is when all tests are imported, and none has run: `tests/search/test_warm_kb.py` asks.
    Judges empty caches as where the last level has 8 MiB: of up to 256 MiB, each timed call took 25 ms more.
    """
    setattr(session.config, "collected_environment", dict(os.environ))  # noqa: B010 - it has no such attribute
    if timing := sys.modules.get("search.judging.cpu.timing"):
        timing._MOST_EVICTED = 16 << 20
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Return what deals files out to the processes of a test run."""
    from xdist.scheduler import LoadFileScheduling
    from xdist.workermanage import WorkerController

    class BothEnds(LoadFileScheduling):
        """Gives the first process files from the front, the others from the end.

        So one process times programs while another has work that needs no clock: two that time wait for each other,
        and a processor is idle. The judge's own tests are always the first's, even where the others have nothing left.
        """

        def _assign_work_unit(self, node: WorkerController) -> None:
            if node is not self.nodes[0]:
                others = (at for at in reversed(self.workqueue) if not at.startswith(ALONE))
                last = next(others, None)
                if last is None:
                    node.shutdown()
                    return
                self.workqueue.move_to_end(last, last=False)
            super()._assign_work_unit(node)

    return BothEnds(config, log) if config.getoption("dist") == "loadfile" else None
