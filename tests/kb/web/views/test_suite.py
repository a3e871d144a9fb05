from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from kb.app.bench.record import SuiteRecords
from kb.app.bench.rows import SuiteRow
from kb.web.site import write_site
from kb.web.skins import as_json
from kb.web.sources import NotFound
from kb.web.svg.suite_files import plots
from kb.web.views.suite import places, suite, suites
from search.outcome import Ratio

ABOUT = {"name": "own", "target": "zen4", "precision": "strict", "author": "auto", "judge": "cpu-6",
         "torch": "2.13.0", "candidates": 8, "seconds": 90.0}  # fmt: skip
HOSTILE = "<script>alert(1)</script>\u202egnp"


def ratio(value: float) -> Ratio:
    return Ratio(ratio=value, low=value * 0.9, high=value * 1.1)


def solved(problem: str, run: str, eager: float) -> SuiteRow:
    return SuiteRow(
        problem=problem, key="k", status="solved", run=run, idea="Walk each row once", roofline=0.4,
        speedup={"eager": ratio(eager), "compile": ratio(eager / 2)}, baselines={"eager": 1e-3},
        precision="strict", seconds=60.0,
    )  # fmt: skip


@pytest.fixture
def records(runs) -> SuiteRecords:
    made = SuiteRecords(runs.storage.engine)
    name = made.begin(ABOUT)
    made.ended(name, solved("1_Rows", runs.small().run, 3.0))
    made.ended(name, solved("2_Gone", "no-such-run-1", 1.5))
    made.ended(name, SuiteRow(problem=f"3_{HOSTILE}", key="k", status="not_judged", reason=HOSTILE))
    return made


def test_a_suite_shows_its_figures_and_links_to_the_runs_that_are_on_record(records, look):
    view = suite(look(), "own-1")
    assert (view.line.figures.problems, view.line.figures.solved) == (3, 2)
    assert [one.run for one in view.rows] == ["rows-1", "", ""]
    assert view.causes == ((HOSTILE, 1),)
    assert [line.suite for line in suites(look(), {}).rows] == ["own-1"]
    assert places(look()) == [{"suite": "own-1"}]


def test_an_unknown_suite_is_not_found(records, look):
    with pytest.raises(NotFound):
        suite(look(), "other")


@pytest.mark.slow
def test_pages_of_suites_are_in_a_site_and_nothing_of_a_problem_is_markup(records, look, tmp_path):
    write_site(look(), tmp_path / "site")
    page = (tmp_path / "site/suites/own-1.html").read_text()
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "../runs/rows-1.html" in page
    assert "Geometric mean of the solved" in page
    assert "own-1.html" in (tmp_path / "site/suites.html").read_text()


def test_a_suites_values_are_json(records, look):
    assert '"status": "solved"' in as_json(suite(look(), "own-1"))


def test_plots_are_svg_files_that_stand_alone(records):
    drawn = plots(records.suite("own-1"))
    assert set(drawn) == {"fast-p", "speedup-eager", "speedup-compile", "roofline"}
    for text in drawn.values():
        root = ET.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "alert(1)</script" not in text
    rows = [e for e in ET.fromstring(drawn["speedup-eager"]).iter() if e.get("class") == "fate won"]
    assert len(rows) == 2


def test_a_suite_of_which_nothing_is_solved_has_no_plots(runs):
    made = SuiteRecords(runs.storage.engine)
    name = made.begin(ABOUT)
    made.ended(name, SuiteRow(problem="1", key="k", status="not_judged", reason="too large"))
    assert plots(made.suite(name)) == {}


def test_a_degenerate_problem_has_no_bar(records, look):
    records.ended("own-1", replace(solved("4_Constant", "no-such-run-2", 999.0), degenerate=True))
    bars = suite(look(), "own-1").bars
    assert [[row.name for row in rows if "Constant" in row.name] for rows in bars.values()] == [
        [],
        [],
    ]
