"""An author asks for more before it gives ideas; the library and the store are real."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from asking import MODEL, MOMENT, Heard, Place, asks, gives, task_of

from kb.config import shipped_programs
from kb.knowledge import open_knowledge
from kb.retrieval.effect_estimate import GainMeasurement
from kb.retrieval.effect_store import Use, record
from search.authors.model_pool import PoolMember
from search.settings import ModelSettings
from synth.models import Reply, Request
from synth.models.scripted import ReplyRule
from synth.replies.ideas import schema
from synth.replies.requests import with_requests

# The package that carries the token ranks opens them in a deprecated way when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("navigation"))


@pytest.mark.slow
def test_requests_are_answered_and_asked_again_until_ideas_come(place: Place) -> None:
    model = Heard(
        asks("read online-softmax", "module operator-softmax", "history of online-softmax"),
        asks("search keep the key/value tile in registers"),
        gives(),
    )
    (idea,) = place.ask(model)
    assert len(model.requests) == 3
    first, second = model.answers
    record_ = place.knowledge.store.document("idea", "online-softmax")
    assert record_ is not None
    assert record_.body.split("## ")[1].strip()[:200] in first
    assert "## module operator-softmax" in first
    # What applies to a processor and C++ comes before what is for GPUs.
    assert first.index("- cpu-rows-simd:") < first.index("Written for other targets")
    assert "No run in this record measured it yet." in first
    assert "2 more times at most" in first
    assert second.count("] idea, kb:ideas/") >= 2
    assert "1 more time at most" in second
    assert idea.exchanges == tuple(one.key() for one in model.requests)
    roles = [turn.role for turn in model.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert len({one.seed for one in model.requests}) == 3


def test_the_prompt_offers_requests_with_the_pages_of_the_task(place: Place) -> None:
    model = Heard(gives())
    place.ask(model)
    (request,) = model.requests
    prompt = request.messages[-1].content
    assert "up to 3 times" in prompt
    assert "operator-softmax" in prompt
    assert json.loads(request.schema or "")["required"] == ["requests", "ideas"]


def test_an_idea_cites_what_was_read_and_its_record_gets_the_credit(place: Place) -> None:
    class Citing(Heard):
        def reply(self, request: Request) -> Reply:
            found = super().reply(request)
            if len(self.requests) == 2:
                labels = [line for line in self.answers[0].splitlines() if line.startswith("[P")]
                label = next(line for line in labels if "persistent-blocks" in line)
                return replace(found, text=gives(label[1 : label.index("]")]))
            return found

    memory = place.memory()
    memory.retriever.clear()
    author = place.author(Citing(asks("read persistent-blocks"), gives()), memory=memory)
    (idea,) = author.ideas(MOMENT, 1)
    assert idea.record == "persistent-blocks"
    (cited,) = place.knowledge.store.passages(idea.passages).values()
    assert cited.document == "kb:ideas/persistent-blocks.md"
    assert cited.document in memory.retriever.documents()
    assert cited.document in memory.retriever.subjects()


def test_labels_go_on_after_those_of_the_prompt_and_one_passage_has_one(place: Place) -> None:
    model = Heard(asks("read kb:ideas/online-softmax.md", "search running maximum"), gives())
    place.ask(model)
    quoted = [
        line
        for line in model.requests[0].messages[-1].content.splitlines()
        if line.startswith("[P")
    ]
    (answer,) = model.answers
    label = answer.split("## read ")[1].split("[")[1].split("]")[0]
    known = [line for line in quoted if "online-softmax.md" in line and f"[{label}]" in line]
    assert known or int(label[1:]) == len(quoted) + 1
    assert answer.count(f"[{label}]") == 1 + ("online-softmax" in answer.split("## search")[1])


def test_a_recipe_s_template_is_cut_out_of_its_record(place: Place) -> None:
    found = place.memory().readings.read("cpu-rows-simd")
    document = place.knowledge.store.document("idea", "cpu-rows-simd")
    assert document is not None
    assert "```jinja" in document.body
    assert "```jinja" not in found.passages[0].text


def test_a_program_that_a_kernel_record_names_is_read_whole(place: Place) -> None:
    path = "examples/kernels/h200_gated_product/program.py"
    model = Heard(asks(f"read {path}", "read h200_gated_product/../program.py"), gives())
    place.ask(model)
    (answer,) = model.answers
    assert (shipped_programs() / "h200_gated_product" / "program.py").read_text().strip() in answer
    assert "not known; the nearest names are" in answer  # of what is no program's folder


def test_a_program_is_given_whole_beside_others_or_named_with_its_tokens(place: Place) -> None:
    names = ("h200_gated_product", "h200_squared_attention", "h200_biased_attention")
    requests = [f"read examples/kernels/{name}/program.py" for name in names]
    model = Heard(asks(*requests), asks(requests[-1]), gives())
    settings = ModelSettings(name="scripted", context_tokens=128_000)
    place.ask(model, task_of(settings, tokens=16_000))
    together, alone = model.answers
    whole = [(shipped_programs() / name / "program.py").read_text().strip() for name in names]
    assert whole[0] in together
    assert whole[2] not in together
    assert "lines left out" not in together
    assert "tokens, for which there is no room here: ask for it alone" in together
    # Alone it has all the room that is left.
    assert whole[2] in alone


def test_unknown_names_are_answered_with_the_nearest_three(place: Place) -> None:
    model = Heard(
        asks("read onlin-softmax", "module operator-sofmax", "history of zzz", "sing a song"),
        gives(),
    )
    place.ask(model)
    (answer,) = model.answers
    assert "not known; the nearest names are online-softmax, " in answer
    assert "not known; the nearest names are operator-softmax, " in answer
    assert "expected `read NAME`, `module NAME`" in answer
    for line in answer.splitlines():
        if line.startswith("not known"):
            assert line.count(", ") == 2


def test_what_was_given_is_not_given_again(place: Place) -> None:
    model = Heard(
        asks("read online-softmax"),
        asks("read ideas/online-softmax.md", "Read online-softmax"),
        gives(),
    )
    place.ask(model)
    assert model.answers[1].count("given above") == 2
    assert "```" not in model.answers[1]


def test_the_last_step_says_that_requests_are_used_up_and_takes_ideas_only(place: Place) -> None:
    model = Heard(asks("module symptoms"), asks("read online-softmax"), gives())
    (idea,) = place.ask(model, task_of(steps=1))
    assert "Requests are used up" in model.answers[0]
    assert "requests" not in (model.requests[1].schema or "")
    # Asked for more all the same, it is told once.
    assert "requests are used up: give ideas" in model.answers[1]
    assert len(idea.exchanges) == 3


def test_a_model_that_never_gives_ideas_ends_without_any(place: Place) -> None:
    model = Heard(ReplyRule(when=lambda _: True, texts=(asks("read online-softmax"),)))
    assert place.ask(model) == ()
    assert len(model.requests) == 5  # three with requests, the last, and the last again
    assert "requests are used up" in place.said[-1]


class Greedy(Heard):
    """Asks as long as it may."""

    def __init__(self) -> None:
        many = ("online-softmax", "persistent-blocks", "attention-by-tiles")
        reads = [f"read {name}" for name in many]
        self.wishes = iter(
            [
                asks(*reads, "module symptoms", "search softmax of long rows"),
                asks("read unroll-and-jam", "read cache-tiling", "module operator-matmul"),
                asks("read numerics"),
            ]
        )
        offered = ReplyRule(
            when=lambda one: '"requests"' in (one.schema or ""), texts=("none of this is used",)
        )
        super().__init__(offered, gives())

    def reply(self, request: Request) -> Reply:
        found = super().reply(request)
        asked = '"requests"' in (request.schema or "")
        return replace(found, text=next(self.wishes)) if asked else found


@pytest.mark.parametrize("tokens", [500, 1200, 4000])
def test_answers_keep_to_their_tokens(place: Place, tokens: int) -> None:
    model = Greedy()
    assert len(place.ask(model, task_of(tokens=tokens))) == 1
    count = PoolMember(model=model, settings=MODEL).count
    assert len(model.requests) >= 2
    assert sum(map(count, model.answers)) <= tokens
    assert "left out" in model.answers[0]
    assert "Requests are used up" in model.answers[-1]


def test_long_requests_of_nonsense_keep_to_their_tokens_too(place: Place) -> None:
    nonsense = [f"read {'ʘ⍟ж' * 38}{n}" for n in range(6)]
    model = Heard(asks(*nonsense), gives())
    assert len(place.ask(model, task_of(tokens=500))) == 1
    count = PoolMember(model=model, settings=MODEL).count
    assert sum(count(turn.content) for turn in model.requests[1].messages[2:]) <= 500
    assert "longer than what is left" in model.answers[0]


@pytest.mark.parametrize("context", [9_000, 12_000, 20_000])
def test_no_request_is_larger_than_the_context(place: Place, context: int) -> None:
    settings = ModelSettings(name="scripted", context_tokens=context, reply_tokens=1_000)
    model = Greedy()
    assert len(place.ask(model, task_of(settings))) == 1
    count = PoolMember(model=model, settings=settings).count
    assert len(model.requests) >= 2
    for request in model.requests:
        assert sum(count(turn.content) + 8 for turn in request.messages) <= context - 1_000
    assert count(model.answers[0]) > 500


def test_a_small_context_is_not_offered_requests(place: Place) -> None:
    settings = ModelSettings(name="scripted", context_tokens=6_000, reply_tokens=1_000)
    model = Heard(gives())
    place.ask(model, task_of(settings))
    assert "requests" not in (model.requests[0].schema or "")


def test_without_steps_or_knowledge_nothing_is_offered_and_requests_are_no_answer(
    place: Place,
) -> None:
    for task in (task_of(steps=0), task_of(retrieval=False), task_of(knowledge=0.0)):
        model = Heard(asks("read online-softmax"), gives())
        (idea,) = place.ask(model, task)
        assert "requests" not in (model.requests[0].schema or "")
        assert "read NAME" not in model.requests[0].messages[-1].content
        assert len(model.requests[1].messages) == 2
        assert "Keep (m, s)" not in model.answers[0]
        assert len(idea.exchanges) == 2
    assert place.memory(retrieval=False).readings is None


def test_a_lesson_that_nothing_proves_is_neither_read_nor_named(place: Place) -> None:
    assert place.knowledge.store.document("lesson", "zebra-lesson") is not None
    model = Heard(
        asks(
            "read zebra-lesson",
            "read lessons:zebra-lesson.md",
            "module lessons",
            "history of online-softmax",
            "search zebra tiles win",
            "module operator-softmax",
        ),
        gives(),
    )
    place.ask(model)
    (answer,) = model.answers
    rest = answer.replace("## read zebra-lesson", "").replace("lessons:zebra-lesson.md", "", 1)
    assert "zebra-lesson" not in rest
    assert "Zebra tiles win" not in rest
    assert "Zebras of tiles" not in rest


def test_a_plain_document_is_quoted_from_its_beginning_with_a_caution_where_it_gives_orders(
    place: Place,
) -> None:
    model = Heard(asks(f"read {place.manual}", "read zebra.md"), gives())
    place.ask(model)
    (answer,) = model.answers
    assert "Stripes of tiles alternate between cores." in answer
    assert "Caution: the quoted text addresses its reader" in answer
    assert answer.count("given above") == 1


@pytest.mark.slow
def test_what_an_idea_gained_is_told_by_place_with_its_lessons(tmp_path: Path) -> None:
    place = Place(tmp_path)
    trial = GainMeasurement(
        gain=0.5,
        fate="won",
        at=time.time() - 60,
        families=frozenset({"softmax"}),
        architecture="sm_90",
        bottleneck="memory-bound",
    )
    uses = [
        Use(subject="kb:ideas/online-softmax.md", evidence=f"e{n}", node=n, trial=trial)
        for n in range(3)
    ]
    record(place.storage.engine, "softmax-1", uses)
    place.knowledge = open_knowledge(place.home)
    model = Heard(asks("history of online-softmax"), gives())
    place.ask(model)
    (answer,) = model.answers
    assert "- softmax; sm_90; memory-bound: 3 won; expect 1." in answer
    assert "Here (softmax; x86-64-v3; memory-bound): expect 1." in answer


def test_the_schema_of_requests_and_ideas_is_strict_and_takes_either() -> None:
    rules = json.loads(with_requests(schema(2)))
    assert rules["additionalProperties"] is False
    assert set(rules["required"]) == set(rules["properties"])
    for reply in (asks("read x"), gives("P1"), json.dumps({"requests": [], "ideas": []})):
        jsonschema.validate(json.loads(reply), rules)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"ideas": []}, rules)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(asks(*"1234567")), rules)


@pytest.mark.slow
def test_a_record_is_whole_beside_pages_and_what_was_cut_may_be_asked_for_again(
    place: Place,
) -> None:
    others = ("module operator-matmul", "module kernels", "search tiles of shared memory", "module symptoms")  # fmt: skip
    model = Heard(asks("read wgmma-from-cuda", *others), asks("module kernels"), gives())
    place.ask(model)
    first, second = model.answers
    body = place.memory().readings.read("wgmma-from-cuda").passages[0].text
    assert body.strip() in first  # as long as a page, which is cut
    assert "lines left out" in first.split("## module kernels")[1]
    assert "given above" not in second
    assert "- causal-attention" in second.split("## module kernels")[1]
