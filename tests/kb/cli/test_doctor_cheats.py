import dataclasses
import json

import pytest
import typer

from kb.cli.cheats import judge_corpus
from search.judging.corpus import cases, run

pytestmark = pytest.mark.timed


@pytest.mark.slow
def test_doctor_judges_the_corpus(make_shell) -> None:
    done = make_shell()("doctor", "--cheats", "--only", "cheats/zeros", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {"device": "cpu", "expected": "wrong", "got": "wrong"}.items() <= told[0].items()
    assert "all ended as they should" in done.stderr


@pytest.mark.slow
def test_one_that_gets_away_ends_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (case,) = cases.choose_cases("cpu", ["cheats/zeros"])
    other = dataclasses.replace(case, kinds=("refused",), tricks=("cached-output",))
    monkeypatch.setattr(cases, "choose_cases", lambda *_: (other,))
    monkeypatch.setattr(run, "devices", lambda: ("cpu",))
    with pytest.raises(typer.Exit) as raised:
        judge_corpus([], json=False)
    assert raised.value.exit_code == 1
    shown = capsys.readouterr()
    assert "FAIL cheats/zeros" in shown.out
    assert "1 did not end as they should" in shown.err


@pytest.mark.slow
def test_a_pattern_that_fits_nothing_is_told_in_one_line(make_shell) -> None:
    done = make_shell()("doctor", "--cheats", "--only", "nothing")
    assert done.returncode == 2
    assert "no case of the corpus" in done.stderr
