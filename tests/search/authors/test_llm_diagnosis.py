import json

import pytest

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import TargetRecord
from search.attempt import Attempt, Diagnosis, Draft, Idea
from search.authors.llm_diagnosis import ModelDiagnosis
from search.authors.model_pool import PoolMember
from search.outcome import Outcome, Passed, Ratio, Wrong
from search.settings import ModelSettings
from synth.bottleneck import Bottleneck
from synth.models import Request
from synth.models.scripted import Scripted
from synth.replies.diagnosis import read_diagnosis

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

MEASURED = Diagnosis(symptoms=("memory-bound",), lines=("Memory-bound: 40 of 90 GB/s.",))
SPILL = {
    "symptom": "register_spills",
    "text": "Eight accumulators of 512 bits do not fit beside the weights.",
    "evidence": "the inner loop of the source",
    "confidence": "High",
    "later": False,
}
GOOD = (
    "Let me see.\n```json\n"
    + json.dumps({"bottlenecks": [SPILL, {**SPILL, "later": True}]})
    + "\n```"
)


class Heard(Scripted):
    def __init__(self, *texts: str) -> None:
        super().__init__(texts, name="m")
        self.requests: list[Request] = []

    def reply(self, request: Request):
        self.requests.append(request)
        return super().reply(request)


def attempt(outcome: Outcome) -> Attempt:
    idea = Idea(title="t", text="x", category="c")
    draft = Draft(source="class ModelNew: ...\n")
    return Attempt(
        number=3, parent=None, round=0, branch=0, idea=idea, draft=draft, outcome=outcome
    )


PASSED = attempt(
    Passed(
        seconds=1e-3,
        samples=9,
        speedup={"eager": Ratio(ratio=2, low=2, high=2)},
        max_error=0.0,
        allowed_error=1.0,
        profile={"gflops": 51.2},
    )
)


def diagnosing(model: Heard, said: list[str]) -> ModelDiagnosis:
    records = [one.record for one in load_library(shipped_docs() / "targets")]
    target = next(
        one for one in records if isinstance(one, TargetRecord) and one.name == "x86-avx2"
    )
    voice = PoolMember(model=model, settings=ModelSettings(name="m"))
    return ModelDiagnosis(lambda _: MEASURED, voice, target, "cpp", said.append)


def test_a_model_states_the_bottleneck_and_what_was_measured_stays_beside_it() -> None:
    model = Heard(GOOD)
    diagnose = diagnosing(model, [])
    found = diagnose(PASSED)
    assert found.symptoms == ("register-spills", "memory-bound")
    assert found.points == (
        Bottleneck(
            symptom="register-spills",
            text=SPILL["text"],
            evidence="a model, by: the inner loop of the source",
            confidence="high",
        ),
    )
    assert found.notes == ("Measured: Memory-bound: 40 of 90 GB/s.",)
    assert diagnose(PASSED) is found
    assert len(model.requests) == 1
    prompt = model.requests[0].messages[-1].content
    for piece in ("class ModelNew", "40 of 90 GB/s", "51.2 GFLOP/s", "tail-effect"):
        assert piece in prompt


def test_a_reply_that_cannot_be_used_is_asked_for_once_more_and_then_said() -> None:
    said: list[str] = []
    bad = json.dumps({"bottlenecks": [{**SPILL, "symptom": "slowness"}]})
    model = Heard("It is slow.", bad)
    assert diagnosing(model, said)(PASSED) is MEASURED
    assert 'no JSON object with a list "bottlenecks"' in model.requests[1].messages[-1].content
    assert said[0].startswith("model m: no usable diagnosis in two replies: symptom: Value error")


def test_no_model_is_asked_about_the_reference_or_what_failed() -> None:
    diagnose = diagnosing(Heard(), [])
    assert diagnose(None) is MEASURED
    assert diagnose(attempt(Wrong(reason="x"))) is MEASURED


@pytest.mark.parametrize("text", ["", "{", "[]", "<think>\n{", '{"bottlenecks": []}', "{" * 9000])
def test_useless_replies_give_nothing_with_a_reason(text: str) -> None:
    found = read_diagnosis(text)
    assert found.points == ()
    assert found.problem
