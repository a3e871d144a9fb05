import json
from pathlib import Path

import pytest

from kb.errors import ModelError
from synth.models import MODELS, Message, Request
from synth.models.scripted import ReplyRule, Scripted


def request(text: str, seed: int = 0) -> Request:
    return Request(
        messages=(Message(role="user", content=text),), max_tokens=10, temperature=0.0, seed=seed
    )


def test_plain_texts_are_given_in_order_and_then_the_script_says_so() -> None:
    model = Scripted(["one", "two"], name="demo")
    assert [model.reply(request("?")).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(ModelError, match="script 'demo': 2 replies were given"):
        model.reply(request("?"))


def test_a_rule_answers_what_it_accepts_by_the_seed_of_the_request() -> None:
    model = Scripted(
        [
            ReplyRule(when=lambda asked: "idea" in asked.messages[-1].content, texts=("a", "b")),
            "plain",
        ]
    )
    assert [model.reply(request("an idea", seed)).text for seed in (4, 7, 4)] == ["a", "b", "a"]
    assert model.reply(request("a draft")).text == "plain"


def test_a_folder_is_a_script_in_the_order_of_its_names(tmp_path: Path) -> None:
    for name, text in (("2.md", "second"), ("1.md", "first"), ("10.md", "third")):
        (tmp_path / name).write_text(text)
    (tmp_path / "kept").mkdir()
    model = Scripted.load(tmp_path)
    assert [model.reply(request("?")).text for _ in range(3)] == ["first", "third", "second"]
    assert model.name == tmp_path.name


def test_a_json_file_is_a_script_of_texts_and_rules(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    path.write_text(json.dumps(["plain", {"when": "ideas?", "replies": ["x", "y"]}]))
    model = Scripted.load(path)
    assert model.reply(request("new ideas", 1)).text == "y"
    assert model.reply(request("draft")).text == "plain"
    assert model.name == "demo"


@pytest.mark.parametrize(
    "content",
    [b"not json", b'{"a": 1}', b'[{"when": "x"}]', b'[{"when": "(", "replies": ["x"]}]', b"[7]",
     b'[{"when": "x", "replies": []}]', b"\xff\xfe"],
)  # fmt: skip
def test_a_script_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        Scripted.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_script_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        Scripted.load(tmp_path / "none.json")


def test_every_chat_back_end_can_be_found_by_its_name() -> None:
    made = {name: MODELS.factory(name).__name__ for name in MODELS}
    assert made["openai"] == "OpenAI"
    assert {"anthropic", "google", "ollama", "openrouter", "responses", "scripted"} <= made.keys()
