import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from search.judging.corpus import run
from search.judging.corpus.__main__ import main
from search.judging.corpus.cases import SECRET_VARIABLE, choose_cases
from search.judging.corpus.run import CorpusRunner
from search.outcome import Outcome, Refused


@pytest.mark.slow
def test_the_plain_program_prints_what_it_expected_and_got(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--only", "cheats/zeros", "--only", "cheats/reads_its_own*"]) == 0
    shown = capsys.readouterr()
    assert "ok   cheats/zeros" in shown.out
    assert "2 of 2 as expected" in shown.err


@pytest.mark.slow
def test_the_plain_program_answers_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "cheats/zeros", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["name"], told["got"], told["as_expected"]) == ("cheats/zeros", "wrong", True)


def test_a_run_without_a_single_case_is_no_success() -> None:
    assert main(["--only", "cheats/zeros", "--seconds", "-1"]) == 1


@pytest.mark.slow
def test_one_that_got_away_is_told(tmp_path: Path) -> None:
    (case,) = choose_cases("cpu", ["cheats/zeros"])
    other = dataclasses.replace(case, kinds=("refused",), tricks=("cached-output",))
    with CorpusRunner("cpu", tmp_path) as corpus_judge:
        assert not corpus_judge.judge(case).complaint
        verdict = corpus_judge.judge(other)
    assert verdict.complaint.startswith("wrong, expected refused cached-output")
    assert verdict.got == "wrong"


def test_a_judge_that_fails_is_a_complaint_and_the_next_case_gets_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    class Failing:
        def prepare(self) -> None: ...

        def judge(self, source: str) -> Outcome:
            raise RuntimeError("the device is gone")

        def close(self) -> None:
            made.append(self)

    monkeypatch.setattr(run, "open_judge", lambda *_, **__: Failing())
    (case,) = choose_cases("cpu", ["cheats/zeros"])
    with CorpusRunner("cpu", tmp_path) as corpus_judge:
        verdicts = [corpus_judge.judge(case), corpus_judge.judge(case)]
    assert [verdict.got for verdict in verdicts] == ["not judged"] * 2
    assert "the device is gone" in verdicts[0].complaint
    assert len(made) == 2


def test_the_bait_in_the_environment_goes_away() -> None:
    assert SECRET_VARIABLE not in os.environ
    with run.bait_in_the_environment():
        assert os.environ[SECRET_VARIABLE]
    assert SECRET_VARIABLE not in os.environ


def test_a_cheat_whose_honest_twin_does_not_pass_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def prepare(self) -> None: ...

        def judge(self, source: str) -> Outcome:
            return Refused(reason="too fast", trick="timer-mismatch")

        def close(self) -> None: ...

    monkeypatch.setattr(run, "open_judge", lambda *_, **__: Refusing())
    (case,) = choose_cases("cuda", ["cheats/patched_clocks"])
    with CorpusRunner("cuda", tmp_path) as corpus_judge:
        verdict = corpus_judge.judge(case)
    assert verdict.got == "not judged"
    assert "the honest layernorm-one_row, which was refused timer-mismatch" in verdict.complaint


BARE = """
import sys

torch_needs = {"torch", "torchgen", "functorch", "numpy", "triton", "sympy", "mpmath", "jinja2", "markupsafe", "networkx",
               "filelock", "fsspec", "typing_extensions", "nvidia", "setuptools", "packaging", "cuda", "kb", "search"}


class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in torch_needs and top not in sys.stdlib_module_names and not top.startswith("_"):
            raise ModuleNotFoundError(f"refused here: {name}", name=name)
        return None


sys.meta_path.insert(0, Refuse())
from search.judging.corpus.__main__ import main
sys.exit(main(["--only", "cheats/zeros"]))
"""


@pytest.mark.slow
def test_the_plain_program_needs_torch_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ok   cheats/zeros" in done.stdout
