from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pytest
from play import open_storage, play, settings_of

from kb.app.command_line import task_with
from kb.app.live import RunIsLive, held
from kb.app.portfolio import PortfolioRun, begin, best_by_round, find, task_files
from kb.app.run import task_slug
from kb.config import Home
from kb.errors import ConfigError, StoreError
from kb.knowledge import open_tables
from kb.progress import silent
from search.portfolio.budget import Budget
from search.runs.storage import Storage

BUDGET = Budget(amount=5, unit="candidates")


def test_a_folder_names_its_task_files_and_the_references_that_none_of_them_names(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("def get_inputs(): ...\n")
    (tmp_path / "helpers.py").write_text("x = 1\n")
    (tmp_path / "task.yaml").write_text("reference: one.py\n")
    (tmp_path / "notes.txt").write_text("")
    assert task_files([tmp_path]) == [tmp_path / "task.yaml", tmp_path / "two.py"]
    assert task_files([tmp_path / "one.py"]) == [tmp_path / "one.py"]


def test_a_folder_without_tasks_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected task files"):
        task_files([tmp_path])


def test_a_portfolio_is_found_again_as_it_was_kept(tmp_path):
    home = Home(tmp_path / "home")
    kept = begin(home, [tmp_path / "a.py", tmp_path / "b.py"], BUDGET, {"seed": 3})
    other = begin(home, [tmp_path / "c.py"], Budget(amount=1e16, unit="tokens"), {})
    assert find(home, "portfolio-2") == other
    assert (kept.name, other.name) == ("portfolio-1", "portfolio-2")
    assert find(home, "portfolio-1") == kept
    assert find(home, "softmax-1") is None
    (home.root / "portfolios" / "portfolio-2.json").write_text("{")
    with pytest.raises(StoreError, match="expected a portfolio"):
        find(home, "portfolio-2")


def test_a_portfolio_and_a_run_are_never_of_one_name(tmp_path):
    home = Home(tmp_path / "home").make()
    storage = Storage(open_tables(home))
    assert storage.begin("portfolio", {}).run == "portfolio-1"  # as older versions named it
    assert begin(home, [tmp_path / "a.py"], BUDGET, {}).name == "portfolio-2"
    (tmp_path / "Portfolio.py").write_text("class Model: ...\ndef get_inputs(): ...\n")
    run = storage.begin(task_slug(task_with(tmp_path / "Portfolio.py")), {}).run
    assert run == "portfolio-task-1"


def test_tasks_that_cannot_be_searched_are_given_up_and_the_report_says_why(tmp_path, capsys):
    home = Home(tmp_path / "home").make()
    portfolio = begin(home, [tmp_path / "a.py", tmp_path / "b.py"], BUDGET, {})
    report = PortfolioRun(home, portfolio, task_with, silent, None, print).spend()
    assert [row["run"] for row in report["tasks"]] == [None, None]
    assert all("does not exist" in row["problem"] for row in report["tasks"])
    assert report["spent"] == 0
    assert report["geometric_mean"] is None
    assert "is given up" in capsys.readouterr().err
    json.dumps(report)


def test_a_task_that_never_began_counts_as_one_in_the_mean(tmp_path):
    home = Home(tmp_path / "home").make()
    storage = Storage(open_tables(home))
    record = storage.begin("play", {})
    play(storage, record, settings_of())
    kept = begin(home, [tmp_path / "a.py", tmp_path / "b.py"], BUDGET, {})
    first, second = kept.shares
    half = replace(kept, shares=(replace(first, run=record.run), second))
    report = PortfolioRun(home, half, task_with, silent, None, print).report()
    speed = report["tasks"][0]["speedup"]
    assert speed > 1
    assert report["geometric_mean"] == pytest.approx(speed**0.5)


def test_candidates_are_judged_in_one_place(tmp_path):
    with pytest.raises(ConfigError, match="expected one place that judges"):
        task_with(tmp_path / "t.yaml", spool=str(tmp_path), workers=True)


def test_the_best_after_each_round_never_falls_and_starts_at_eager(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    play(storage, record, settings_of())
    best = best_by_round(record.graph)
    assert len(best) == 4
    assert list(best) == sorted(best)
    assert best[0] >= 1
    assert best[-1] == record.graph.best_speedup


@pytest.mark.slow
def test_a_portfolio_that_another_process_spends_is_left_to_it(tmp_path):
    home = Home(tmp_path / "home").make()
    portfolio = begin(home, [tmp_path / "a.py"], BUDGET, {})
    run = PortfolioRun(home, portfolio, task_with, silent, None, print)
    with (
        held(home.root / "portfolios" / "portfolio-1.lock", "portfolio-1"),
        pytest.raises(RunIsLive, match="portfolio-1 is being worked on by another process"),
    ):
        run.spend()
    assert find(home, "portfolio-1") == portfolio


def test_a_portfolio_is_gone_on_with_as_the_process_before_left_it(tmp_path):
    home = Home(tmp_path / "home").make()
    portfolio = begin(home, [tmp_path / "a.py"], BUDGET, {})
    late = PortfolioRun(home, portfolio, task_with, silent, None, print)
    # Meanwhile another process spends some of it, and ends.
    (share,) = portfolio.shares
    kept = home.root / "portfolios" / "portfolio-1.json"
    kept.write_text(json.dumps(asdict(replace(portfolio, shares=(replace(share, minutes=7.0),)))))
    late.spend()
    assert find(home, "portfolio-1").shares[0].minutes >= 7


def test_a_turn_that_was_killed_is_paid_for(tmp_path):
    home = Home(tmp_path / "home").make()
    storage = Storage(open_tables(home))
    record = storage.begin("play", {})
    play(storage, record, settings_of())
    node = record.graph.nodes[-1]
    again = replace(node, number=node.number + 1, outcome=None)
    record.add_node(again)
    record.add_outcome(again, node.outcome, key="late", elapsed=600.0)
    kept = begin(home, [tmp_path / "a.py"], Budget(amount=9, unit="minutes"), {})
    begun = replace(kept, shares=(replace(kept.shares[0], run=record.run),))
    assert PortfolioRun(home, begun, task_with, silent, None, print).report()["spent"] == 10


def test_portfolios_that_begin_at_once_get_names_of_their_own(tmp_path):
    home = Home(tmp_path / "home").make()

    def begun(_: int) -> str:
        return begin(home, [tmp_path / "a.py"], BUDGET, {}).name

    with ThreadPoolExecutor(8) as threads:
        names = list(threads.map(begun, range(40)))
    assert len(set(names)) == 40
