from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from dry import KERNELS, make_task, split

from kb.config import shipped_docs
from kb.records.library import load_library
from search.judging.dryrun.judge import DryJudge
from search.judging.limits import Limits
from search.outcome import BuildFailed, Checked, Kernel, Wrong, from_json, to_json
from search.reference import load_problem


@pytest.fixture(scope="module")
def judge(tmp_path_factory, zygote):
    folder = tmp_path_factory.mktemp("judge")
    reference, _ = split(KERNELS / "vector_add.py")
    problem = load_problem(make_task(folder, reference))
    documents = load_library(shipped_docs() / "targets")
    target = next(d.record for d in documents if d.name == "mi300x")
    judge = DryJudge(problem, target, seed=1, folder=folder, limits=Limits(), zygote=zygote)
    yield judge
    judge.close()


@pytest.fixture(scope="module")
def answer() -> str:
    return split(KERNELS / "vector_add.py")[1]


@pytest.mark.slow
def test_preparing_says_once_that_nothing_was_timed(judge):
    prepared = judge.prepare()
    assert prepared.baselines == {}
    assert [note for note in prepared.notes if "nothing was timed" in note] == [prepared.notes[0]]
    assert "mi300x" in prepared.notes[0]
    assert prepared.work is not None
    assert judge.prepare() is prepared


def test_a_right_candidate_is_checked_and_never_timed(judge, answer):
    outcome = judge.judge(answer)
    assert isinstance(outcome, Checked)
    assert outcome.kernels[0].architecture == "gfx942"
    assert outcome.max_error <= outcome.allowed_error
    assert outcome.build_seconds > 0
    told = json.loads(to_json(outcome))
    assert told["timed"] is False
    assert not any("second" in key and key != "build_seconds" for key in told)
    assert from_json(to_json(outcome)) == outcome


@pytest.mark.slow
def test_a_thorough_judgement_asks_more_distributions(judge, answer):
    # Values beyond 5,000 come from the distribution of huge inputs alone.
    clipped = answer.replace(
        "tl.load(x + i, mask=keep) + tl.load(y + i, mask=keep)",
        "tl.minimum(tl.load(x + i, mask=keep), 5000.0) + tl.load(y + i, mask=keep)",
    )
    assert clipped != answer
    assert isinstance(judge.judge(clipped), Checked)
    outcome = judge.judge(clipped, thorough=True)
    assert isinstance(outcome, Wrong)
    assert "'huge'" in outcome.reason


def test_what_does_not_compile_is_a_failed_build(judge, answer):
    outcome = judge.judge(answer.replace("tl.arange", "tl.no_arange"))
    assert isinstance(outcome, BuildFailed)
    assert outcome.build_seconds > 0


KERNEL = Kernel(
    name="k", architecture="sm_90", registers=32, shared=0, spills=0, stack=0, warps=4,
    occupancy=1.0,
)  # fmt: skip
ONE = Checked(kernels=(KERNEL,), max_error=0.0, allowed_error=1.0)


@pytest.mark.parametrize(
    "worse",
    [
        replace(ONE, kernels=(KERNEL, KERNEL)),
        replace(ONE, kernels=(replace(KERNEL, launches=3),)),
        replace(ONE, kernels=(replace(KERNEL, spills=512),)),
        replace(ONE, kernels=(replace(KERNEL, occupancy=0.1),)),
        replace(ONE, unchecked="too slow"),
        replace(ONE, kernels=()),
    ],
)
def test_merit_ranks_by_launches_spills_occupancy_and_what_was_checked(worse):
    assert worse.merit < ONE.merit


def test_occupancy_beyond_a_half_ranks_no_higher():
    assert replace(ONE, kernels=(replace(KERNEL, occupancy=0.5),)).merit == ONE.merit


def test_every_field_crosses_json():
    outcome = replace(
        ONE,
        kernels=(replace(KERNEL, limited_by=("registers",), losses=("slow",)),),
        notes=("a", "b"),
    )
    assert from_json(to_json(outcome)) == outcome
    assert asdict(outcome)["kind"] == "checked"


FORGED = "import os\nfor place in range(3, 12):\n    try: os.write(place, {line!r})\n    except OSError: pass\n"
ATTACKS = {
    "flags": "from kb.native import load_cuda\nload_cuda('', '" + "-DA=1 " * 2000 + "')\n",
    "half a letter": "from kb.native import load_cuda\nload_cuda('// \\ud800')\n",
    "a number for functions": "load_inline(name='m', cpp_sources='', functions=3)\n",
    "many parts": "\n".join(f"load_cuda('// {n}')" for n in range(40)),
    "a huge number": FORGED.format(line=b'{"answers": 1' + b"0" * 400 + b"}\n"),
    "lists in lists": FORGED.format(line=b'{"a": ' + b"[" * 600 + b"]" * 600 + b"}\n"),
    "kernels of another form": FORGED.format(line=b'{}\n{"answers": [{"kernels": [3, {"asm": []}]}]}\n'),
    "natives of another form": FORGED.format(line=b'{}\n{"answers": [{"kernels": [], "natives": [[1], {}]}]}\n'),
    "faults of another form": FORGED.format(line=b'{}\n{"answers": [{"kernels": [], "faults": {"a": 1}}]}\n'),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_judge_is_an_outcome_of_the_candidate(judge, answer, name):
    outcome = judge.judge(ATTACKS[name] + answer)
    assert outcome.kind in {"build_failed", "refused", "crashed", "wrong"}, outcome
    assert len(outcome.reason) <= 500
    assert judge.judge(answer).kind == "checked"
