import dataclasses
import itertools

import pytest

from search.judging.corpus.cases import (
    Bait,
    Case,
    choose_cases,
    complaint,
    header,
    load_cases,
    twin_of,
)
from search.outcome import Crashed, Passed, Ratio, Refused, Wrong

CHEAT = Case(
    group="cheats",
    name="one",
    source="",
    kinds=("refused", "wrong"),
    tricks=("cached-output",),
    pattern="other inputs",
    reference="layernorm",
)
PASSING = dataclasses.replace(CHEAT, kinds=("refused", "passed"), tricks=("no-gain",))


def passed(seconds: float = 1e-5, eager: float = 1.0) -> Passed:
    return Passed(
        seconds=seconds,
        samples=9,
        speedup={"eager": Ratio(ratio=eager, low=eager, high=eager)},
        max_error=1e-7,
        allowed_error=1e-6,
    )


def test_the_expected_refusal_is_no_complaint() -> None:
    outcome = Refused(reason="it is the answer to other inputs", trick="cached-output")
    assert complaint(CHEAT, outcome, seconds=1) == ""


def test_a_cheat_that_passes_is_a_complaint() -> None:
    assert "passed, expected refused|wrong" in complaint(CHEAT, passed(), seconds=1)


def test_a_refusal_for_another_reason_is_a_complaint() -> None:
    outcome = Refused(reason="other inputs", trick="input-mutation")
    assert "refused input-mutation" in complaint(CHEAT, outcome, seconds=1)


def test_a_verdict_in_other_words_is_a_complaint() -> None:
    assert "/other inputs/" in complaint(CHEAT, Wrong(reason="no"), seconds=1)


def test_a_reason_of_two_lines_is_a_complaint() -> None:
    assert "one line" in complaint(CHEAT, Wrong(reason="other inputs\nand more"), seconds=1)


def test_an_outcome_that_quotes_a_secret_is_a_complaint() -> None:
    outcome = Wrong(reason="other inputs", detail="it says SECRET\n")
    assert "secret" in complaint(CHEAT, outcome, seconds=1)


def test_a_cheat_may_pass_where_it_gains_nothing() -> None:
    twin = passed(seconds=1.1e-5)
    assert complaint(PASSING, passed(seconds=1.0e-5), seconds=1, twin=twin) == ""
    assert "twin" in complaint(PASSING, passed(seconds=0.5e-5, eager=2.0), seconds=1, twin=twin)


def test_a_machine_that_was_busier_for_the_twin_is_no_gain() -> None:
    assert complaint(PASSING, passed(seconds=0.5e-5), seconds=1, twin=passed(seconds=1.1e-5)) == ""


def test_a_cheat_that_must_be_slow_may_not_be_fast() -> None:
    case = dataclasses.replace(CHEAT, kinds=("passed",), tricks=("slower",))
    assert complaint(case, passed(eager=0.03), seconds=1) == ""
    assert "times the speed" in complaint(case, passed(eager=0.9), seconds=1)


def test_an_honest_candidate_that_is_refused_is_a_complaint() -> None:
    case = Case(group="honest", name="one", source="")
    assert complaint(case, passed(), seconds=1) == ""
    assert "expected passed" in complaint(
        case, Refused(reason="no", trick="decoy-kernel"), seconds=1
    )


def test_a_judge_that_waits_too_long_is_a_complaint() -> None:
    case = dataclasses.replace(CHEAT, kinds=("crashed",), pattern=".", within=2.0)
    assert complaint(case, Crashed(reason="gone"), seconds=1) == ""
    assert "at most 2 s" in complaint(case, Crashed(reason="gone"), seconds=3)


def test_what_a_candidate_leaves_behind_is_seen(tmp_path) -> None:
    bait = Bait(tmp_path)
    assert str(tmp_path) in bait.place("open('@FOLDER@/written', 'w')")
    assert bait.damage() == ""
    (tmp_path / "written").touch()
    assert "written" in bait.damage()
    (tmp_path / "secret.txt").write_text("other")
    assert "file of the user" in bait.damage()


def test_a_part_stands_in_the_place_of_its_mark() -> None:
    (case,) = choose_cases("cuda", ["cheats/identity"])
    assert "class Norm(nn.Module)" in case.source
    assert header(case.source).keys() == {"expect"}


def test_cases_of_one_task_come_together() -> None:
    tasks = [(case.reference, tuple(case.settings.items())) for case in load_cases("cuda")]
    changes = sum(one != other for one, other in itertools.pairwise(tasks))
    assert changes == len(set(tasks)) - 1


@pytest.mark.parametrize("case", load_cases("cuda"), ids=lambda case: case.label)
def test_a_cheat_that_may_pass_has_an_honest_twin(case: Case) -> None:
    if "no-gain" in case.tricks:
        twin = twin_of(case, "cuda")
        assert twin is not None
        assert twin.reference == case.reference
