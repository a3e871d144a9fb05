"""Questions to the knowledge base in a model's reply: the schema that it is asked for, and a reader."""

from __future__ import annotations

import json
from dataclasses import dataclass

from synth.quoting import one_line
from synth.replies.source import listed_under, without_thoughts

MOST = 6
SHORTEST, LONGEST = 8, 240  # characters of a question, as patterns have them


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuestions:
    """What a reply held; `problem` says in one line why there is nothing."""

    questions: tuple[str, ...]
    problem: str = ""


def questions_schema() -> str:
    """Return the JSON schema, as JSON, of a reply."""
    question = {"type": "string", "minLength": SHORTEST, "maxLength": LONGEST}
    listed = {"type": "array", "minItems": 1, "maxItems": MOST, "items": question}
    whole = {
        "type": "object",
        "additionalProperties": False,
        "required": ["questions"],
        "properties": {"questions": listed},
    }
    return json.dumps(whole, sort_keys=True)


def read_questions(text: str) -> ReadQuestions:
    """Read the questions of a reply, each once, the first `MOST`."""
    said = without_thoughts(text)
    if said is None:
        return ReadQuestions(questions=(), problem="the reply ended inside its thinking block")
    listed = listed_under("questions", said)
    if listed is None:
        problem = 'no JSON object with a list "questions" was found'
        return ReadQuestions(questions=(), problem=problem)
    asked = (one_line(one, LONGEST) for one in listed if isinstance(one, str))
    found = tuple(dict.fromkeys(one for one in asked if len(one) >= SHORTEST))[:MOST]
    problem = "" if found else f"no question of {SHORTEST} characters or more is in its list"
    return ReadQuestions(questions=found, problem=problem)
