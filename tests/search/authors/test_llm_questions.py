from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import MOMENT, Heard, Place, gives, task_of

from kb.retrieval.multi_query import Inquiry
from search.attempt import Idea
from search.authors.llm import LanguageModel
from search.authors.model_pool import ModelPool, PoolMember
from search.runs.storage import Storage
from search.settings import ModelSettings
from search.task import Task, TaskFile
from synth.models import Model
from synth.models.mailbox.model import Mailbox
from synth.models.recorded import Recorded
from synth.replies.questions import MOST, read_questions

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

OWN = "How do I keep a row of a softmax in registers between its walks?"
QUESTIONS = json.dumps({"questions": [OWN, OWN, "How are zebras striped?"]})
IDEA = Idea(title="One walk", text="Keep a running maximum.", category="memory access")


def member(model: Model) -> PoolMember:
    return PoolMember(model=model, settings=ModelSettings(name=model.name))


def author(
    place: Place, asker: Model, writer: Model, task: Task | None = None
) -> tuple[LanguageModel, list[Inquiry]]:
    """Return an author whose questions another model writes, and what was asked of the library."""
    cast = ModelPool({"ideas": [member(writer)], "retrieval": [member(asker)]})
    view = place.memory()
    made = place.author(cast, task, view)
    asked: list[Inquiry] = []
    inner = view.retriever.inquire

    def inquire(inquiry: Inquiry) -> Any:
        asked.append(inquiry)
        return inner(inquiry)

    view.retriever.inquire = inquire  # type: ignore[method-assign]
    return made, asked


def texts(inquiry: Inquiry) -> list[str]:
    return [one.text for one in inquiry.questions if one.text]


@pytest.mark.slow
def test_a_model_writes_the_questions_and_records_that_patterns_name_still_count(
    tmp_path: Path,
) -> None:
    place, asker = Place(tmp_path), Heard(QUESTIONS)
    made, asked = author(place, asker, Heard(gives()))
    assert made.ideas(MOMENT, 1)
    assert texts(asked[0]) == [OWN, "How are zebras striped?"]
    assert any("online-softmax" in name for one in asked[0].questions for name in one.see)
    (request,) = asker.requests
    prompt = request.messages[-1].content
    for piece in ("torch.softmax", "Memory-bound: at least 1 ms.", "ideas that make"):
        assert piece in prompt
    assert '"questions"' in (request.schema or "")


@pytest.mark.slow
def test_a_draft_is_asked_for_with_its_idea_beside_the_questions(tmp_path: Path) -> None:
    place, asker = Place(tmp_path), Heard(QUESTIONS)
    made, asked = author(place, asker, Heard("```python\nclass ModelNew: ...\n```"))
    assert made.draft(MOMENT, IDEA, 0, ())
    assert texts(asked[0]) == ["One walk. Keep a running maximum.", OWN, "How are zebras striped?"]
    assert "Keep a running maximum." in asker.requests[0].messages[-1].content


@pytest.mark.slow
def test_after_two_replies_of_no_use_kb_asks_its_own_questions_and_says_so(tmp_path: Path) -> None:
    place, asker = Place(tmp_path), Heard("Let me think.", '{"questions": ["why"]}')
    made, asked = author(place, asker, Heard(gives()))
    assert made.ideas(MOMENT, 1)
    assert len(asker.requests) == 2
    assert 'no JSON object with a list "questions"' in asker.requests[1].messages[-1].content
    assert OWN not in texts(asked[0])
    assert len(texts(asked[0])) > 1
    assert place.said == [
        "model scripted: no usable questions in two replies: no question of 8 characters or more is in its "
        "list: kb asks its own"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("off", [{"retrieval": False}, {"search": {"knowledge": 0}}])
def test_where_nothing_is_retrieved_no_model_is_asked(tmp_path: Path, off: dict[str, Any]) -> None:
    settings = TaskFile.model_validate({"reference": "softmax.py", **off})
    place, asker = Place(tmp_path), Heard()
    made, _ = author(place, asker, Heard(gives()), replace(task_of(), settings=settings))
    assert made.ideas(MOMENT, 1)
    assert asker.requests == []


@pytest.mark.slow
def test_what_was_answered_once_is_not_asked_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    storage: Storage = place.storage
    first, asked = author(place, Recorded(Heard(QUESTIONS), storage), Heard(gives()))
    assert first.ideas(MOMENT, 1)
    again, later = author(place, Recorded(None, storage, name="scripted"), Heard(gives()))
    assert again.ideas(MOMENT, 1)
    assert later == asked


@pytest.mark.slow
def test_questions_are_asked_by_letter_without_holding_up_the_process(tmp_path: Path) -> None:
    place = Place(tmp_path)
    box = Mailbox(tmp_path / "letters", look_seconds=0.0)
    made, asked = author(place, box, Heard(gives()))
    waiting = made.asks_ideas(MOMENT, 1)
    next(waiting)
    (letter,) = (tmp_path / "letters").rglob("*.md")
    assert "ask a library" in letter.read_text()
    letter.with_suffix(".reply.md").write_text(QUESTIONS)
    for _ in waiting:
        pass
    assert texts(asked[0])[0] == OWN


@pytest.mark.parametrize("text", ["", "{", "[]", "<think>\n{", '{"questions": []}', "{" * 9000])
def test_useless_replies_give_nothing_with_a_reason(text: str) -> None:
    found = read_questions(text)
    assert found.questions == ()
    assert found.problem


def test_at_most_a_few_questions_are_read() -> None:
    many = {"questions": [f"What about technique {one}?" for one in range(20)]}
    assert len(read_questions(json.dumps(many)).questions) == MOST
