"""What all runs of a database may spend together, on each database that `kb` supports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from kb.cli.spending import _print, change_caps
from kb.config import Home
from kb.database import writing
from kb.errors import ConfigError
from search.runs.calls import CALLS
from search.runs.caps import DatabaseCap, DatabaseCaps, parse_cap
from search.runs.spending import Ledger, spending
from search.runs.storage import Storage
from search.settings import StopSettings
from synth.models.budgeted import Exhausted, Hold

SPENDER = Path(__file__).with_name("spender.py")
MOST = 162  # tokens that one request of a spender may take: 62 at most in, 100 out; it takes 160


@contextmanager
def spender(engine: Engine, run: str, requests: int = 200) -> Iterator[subprocess.Popen[str]]:
    place = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    url = engine.url.render_as_string(hide_password=False)
    process = subprocess.Popen(
        [sys.executable, str(SPENDER), url, run, str(requests)],
        env={**os.environ, **place},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cap", "used"),
    [
        (DatabaseCap(unit="tokens", period="day", amount=3200), "tokens"),
        (DatabaseCap(unit="requests", period="all", amount=20), "requests"),
        (DatabaseCap(unit="money", period="day", amount=2.0), "money"),
    ],
    ids=["tokens", "requests", "money"],
)
def test_two_processes_on_one_database_keep_to_one_cap(
    engine: Engine, cap: DatabaseCap, used: str
) -> None:
    caps = DatabaseCaps(engine)
    caps.put(cap)
    with spender(engine, "a-1") as one, spender(engine, "b-1") as other:
        told = []
        for process in (one, other):  # else one may have it all before the other begins
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("one\n")
            process.stdin.flush()
            assert process.stdout.readline() == "begun\n"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in (one, other):
            told.append(process.communicate(timeout=120)[0])
    assert all(f"the database's cap of {cap}" in line for line in told), told
    rows = spending(engine)
    calls = sum(row["calls"] for row in rows)
    # As many as fit, the last of them at the most that it may take.
    assert calls in (19, 20)
    assert {"tokens": 160 * calls, "requests": calls, "money": 0.1 * calls}[used] <= cap.amount
    (state,) = caps.states()
    assert state.held == 0
    assert len(spending(engine, "a-1")) == len(spending(engine, "b-1")) == 1


@pytest.mark.slow
def test_what_a_killed_run_had_put_aside_counts_until_it_asks_again(engine: Engine) -> None:
    caps = DatabaseCaps(engine)
    caps.put(DatabaseCap(unit="requests", period="all", amount=1000))
    hold = Hold(key="k", tokens=10, cost=0.0)
    with spender(engine, "a-1", requests=1000) as process:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        end = time.monotonic() + 60
        while caps.states()[0].held == 0:
            if time.monotonic() >= end:
                raise TimeoutError
        process.send_signal(signal.SIGKILL)
        process.wait()
    (state,) = caps.states()
    assert state.held in (0, 1)  # it may have been killed between two requests
    caps.put(DatabaseCap(unit="requests", period="all", amount=state.spent + state.held + 1))
    caps.reserve("b-1", hold)
    caps.reserve("b-1", hold)  # as after a resume: it is the same request
    with pytest.raises(Exhausted):
        caps.reserve("c-1", hold)
    caps.release("b-1", hold)
    caps.reserve("c-1", hold)


def test_a_cap_of_a_day_forgets_the_days_before(engine: Engine) -> None:
    ledger = Ledger(engine, StopSettings()).open("a-1")
    hold = Hold(key="k", tokens=10, cost=0.0)
    ledger.shared.put(DatabaseCap(unit="requests", period="day", amount=0))
    with pytest.raises(Exhausted, match="cap of 0 requests a day"):
        ledger.reserve(hold)
    ledger.shared.put(DatabaseCap(unit="requests", period="day", amount=1))
    row = {"key": "y", "role": "code", "model": "m", "tokens_in": 1, "tokens_out": 1,
           "cached": 0, "cost": None, "seconds": 0.0, "paid": True}  # fmt: skip
    ledger._book(row)
    with pytest.raises(Exhausted):
        ledger.reserve(hold)
    with writing(engine) as session:
        session.execute(update(CALLS).values(at=CALLS.c.at - 86400))
    ledger.reserve(hold)
    ledger.shared.put(DatabaseCap(unit="requests", period="all", amount=2))
    with pytest.raises(Exhausted, match="cap of 2 requests: 2 spent"):
        ledger.shared.reserve("b-1", hold)


def test_a_cap_is_read_as_it_is_written() -> None:
    assert parse_cap("5 money a day") == ("money", "day", 5.0)
    assert parse_cap("1_000_000 tokens") == ("tokens", "all", 1e6)
    assert parse_cap("requests a day") == ("requests", "day", None)
    for wrong in ("5", "5 euros", "money per day", "-1 tokens"):
        with pytest.raises(ConfigError, match="expected a cap on money, tokens or requests"):
            parse_cap(wrong)


def test_what_is_spent_of_a_cap_is_shown_in_full(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger(engine, StopSettings()).open("a-1")
    ledger.shared.put(DatabaseCap(unit="tokens", period="all", amount=20_000_000))
    ledger.reserve(Hold(key="k", tokens=1_234_567, cost=0.0))
    _print(Home(tmp_path), [], ledger.shared.states())
    assert "cap of 20,000,000 tokens: 0 spent, 1,234,567 put aside" in capsys.readouterr().out


def test_caps_of_which_one_is_none_change_nothing(engine: Engine) -> None:
    caps = DatabaseCaps(engine)
    caps.put(DatabaseCap(unit="tokens", period="all", amount=9))
    with pytest.raises(ConfigError, match="7 apples"):
        change_caps(caps, ["5 money", "7 apples"], ["tokens"])
    assert [str(cap) for cap in caps.caps()] == ["9 tokens"]


@pytest.mark.parametrize("trusted", [False, True])
def test_what_an_imported_run_cost_elsewhere_counts_towards_no_cap(
    engine: Engine, trusted: bool
) -> None:
    run = Storage(engine).begin("a", {"task": "a", "imported": not trusted}).run
    row = {"key": "y", "role": "code", "model": "m", "tokens_in": 1, "tokens_out": 1,
           "cached": 0, "cost": None, "seconds": 0.0, "paid": True}  # fmt: skip
    Ledger(engine, StopSettings()).open(run)._book(row)
    caps = DatabaseCaps(engine)
    caps.put(DatabaseCap(unit="requests", period="all", amount=1))
    assert [state.spent for state in caps.states()] == [0]
    caps.reserve("b-1", Hold(key="k", tokens=10, cost=0.0))
    assert spending(engine) == []
    assert len(spending(engine, run)) == 1


def test_what_going_on_with_an_imported_run_costs_here_counts_whatever_clocks_say(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"key": "", "role": "code", "model": "m", "tokens_in": 1, "tokens_out": 1,
           "cached": 0, "cost": None, "seconds": 0.0, "paid": True}  # fmt: skip
    run = Storage(engine).begin("a", {"task": "a", "imported": False, "imported_calls": 1}).run
    monkeypatch.setattr(time, "time", lambda: 1.0)  # on a machine whose clock is far behind
    Ledger(engine, StopSettings()).open(run)._book(row)
    with writing(engine) as session:
        session.execute(update(CALLS).values(at=9e10))  # a file may say anything
    caps = DatabaseCaps(engine)
    caps.put(DatabaseCap(unit="requests", period="day", amount=1))
    assert [state.spent for state in caps.states()] == [0]
    Ledger(engine, StopSettings()).open(run)._book(row)
    assert [state.spent for state in caps.states()] == [1]
    assert [one["calls"] for one in spending(engine)] == [1]
