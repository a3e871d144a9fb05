"""The corpus for a GPU is complete, and every file of it says what is expected, so that nothing passes by mistake."""

import re

import pytest

from search.judging.corpus.cases import Bait, Case, corpus_folder, header, load_cases
from search.languages.cute import imports_cute, is_installed
from search.outcome import OUTCOME_KINDS

CASES = load_cases("cuda")
SIZES = {"cheats": 60, "honest": 40, "faults": 20}


@pytest.mark.parametrize(("group", "least"), SIZES.items())
def test_there_are_enough_of_each(group: str, least: int) -> None:
    assert len([case for case in CASES if case.group == group]) >= least


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_case_is_whole(case: Case, tmp_path) -> None:
    source = Bait(tmp_path).place(case.source)
    compile(source, case.name, "exec")
    assert set(case.kinds) <= set(OUTCOME_KINDS)
    assert (corpus_folder("cuda") / "references" / f"{case.reference}.py").is_file()
    if case.group == "honest":
        judged = is_installed() or not imports_cute(source)
        assert case.kinds == ("passed" if judged else "build_failed",)
        assert not case.tricks
        return
    path = corpus_folder("cuda") / case.group / f"{case.name}.py"
    assert "expect" in header(path.read_text())
    assert "# with:" not in source
    assert case.pattern
    re.compile(case.pattern)
    assert bool(case.tricks) is bool({"refused", "passed"} & set(case.kinds))


@pytest.mark.parametrize("case", [c for c in CASES if c.group != "honest"], ids=lambda c: c.label)
def test_what_a_candidate_does_is_said_in_a_sentence(case: Case) -> None:
    path = corpus_folder("cuda") / case.group / f"{case.name}.py"
    assert re.search(r'^"""[A-Z].*\."""$', path.read_text(), re.MULTILINE)
