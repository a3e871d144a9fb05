from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kb.errors import ModelError
from synth.models import Message, Reply, Request
from synth.models.mailbox.model import Mailbox

SOURCE = "class ModelNew:\n    pass\n"
FENCED = f"Here it is.\n\n```python\n{SOURCE}```\n"
SCHEMA = json.dumps({"type": "object", "properties": {"ideas": {"type": "array"}}})


def ask(text: str = "Write it.", **values: object) -> Request:
    turns = (
        Message(role="system", content="You are an expert."),
        Message(role="user", content=text),
    )
    return replace(Request(messages=turns, max_tokens=900, temperature=0.7, seed=7), **values)  # type: ignore[arg-type]


class Asked:
    """A request whose letter is out."""

    def __init__(self, box: Mailbox, request: Request) -> None:
        self.reply: Reply | None = None
        self._waiting = box.ask(request)
        self.look()

    def look(self, times: int = 1) -> None:
        """Look for the answer; it counts once it did not change between two looks."""
        for _ in range(times):
            try:
                next(self._waiting)
            except StopIteration as end:
                self.reply = end.value
                return

    def answer(self) -> Reply:
        self.look(2)
        assert self.reply is not None
        return self.reply

    def close(self) -> None:
        self._waiting.close()


@pytest.fixture
def box(tmp_path):
    return Mailbox(tmp_path, look_seconds=0.02)


def letters(folder: Path) -> list[Path]:
    return [folder / f"{path.stem}.md" for path in sorted(folder.glob("*-*-*.json"))]


def sent(folder: Path, count: int = 1) -> list[Path]:
    found = letters(folder)
    assert len(found) == count
    return found


def write(letter: Path, text: str | bytes) -> None:
    draft = letter.with_suffix(".draft")
    draft.write_bytes(text.encode() if isinstance(text, str) else text)
    draft.rename(letter.with_suffix(".reply.md"))


def test_a_letter_says_what_is_asked_and_in_what_form_and_its_answer_is_the_reply(box, tmp_path):
    asked = Asked(box, ask("Make **softmax** fast."))
    (letter,) = sent(tmp_path)
    text = letter.read_text()
    assert "Make **softmax** fast." in text
    assert "You are an expert." in text
    assert f"{letter.stem}.reply.md" in text
    about = json.loads(letter.with_suffix(".json").read_text())
    assert about["state"] == "waiting"
    assert about["request"]["messages"][1]["content"] == "Make **softmax** fast."
    assert letter.stem.endswith(ask("Make **softmax** fast.").key()[:12])
    write(letter, FENCED)
    reply = asked.answer()
    assert (reply.text, reply.model, reply.finish) == (FENCED, "mailbox", "stop")
    assert reply.tokens_in > 0
    assert reply.tokens_out > 0
    assert json.loads(letter.with_suffix(".json").read_text())["state"] == "answered"
    assert box.waiting == ()
    assert box.waited > 0


def test_letters_wait_beside_each_other_and_their_answers_come_in_any_order(box, tmp_path):
    asked = {n: Asked(box, ask(f"number {n}", seed=n)) for n in range(5)}
    for letter in reversed(sent(tmp_path, 5)):
        number = next(n for n in range(5) if f"number {n}" in letter.read_text())
        write(letter, f"```python\n# {number}\n{SOURCE}```")
        assert f"# {number}\n" in asked[number].answer().text


def test_an_answer_of_no_use_is_put_aside_with_the_reason_and_the_letter_waits_on(box, tmp_path):
    asked = Asked(box, ask())
    (letter,) = sent(tmp_path)
    problem = letter.with_suffix(".problem.md")
    for number, (wrong, reason) in enumerate(
        [
            ("", "empty"),
            ("I would rather not.", "no fenced code"),
            ("```python\nclass Other: pass\n```", "ModelNew"),
            (b"\xff\xfe\x00", "UTF-8"),
            (b"x" * (4 << 20) + b"x", "longer than 4 MiB"),
        ],
        start=1,
    ):
        write(letter, wrong)
        asked.look(2)
        assert (tmp_path / f"{letter.stem}.rejected-{number}.md").exists()
        assert reason in problem.read_text()
        assert asked.reply is None
    write(letter, FENCED)
    assert asked.answer().text == FENCED
    assert not problem.exists()


def test_ideas_are_asked_for_with_their_schema_and_must_be_json(box, tmp_path):
    asked = Asked(box, ask(schema=SCHEMA))
    (letter,) = sent(tmp_path)
    assert "-ideas-" in letter.name
    # The prompt tells the form; the schema would tell it again.
    assert "one JSON object" in letter.read_text()
    assert '"properties"' not in letter.read_text()
    assert json.loads(letter.with_suffix(".json").read_text())["request"]["schema"] == SCHEMA
    write(letter, "First, use less memory.")
    asked.look(2)
    assert "JSON" in letter.with_suffix(".problem.md").read_text()
    write(letter, '{"ideas": [{"title": "cut o')
    asked.look(2)
    assert asked.reply is None
    write(letter, 'Sure: {"ideas": []} and that is all.')
    assert '"ideas"' in asked.answer().text


@pytest.mark.parametrize(
    "text",
    [
        'With vectors {a, b}: {"ideas": [{"title": "x"}]}. It spares {c}.',
        '{"ideas": [{"title": "x", "text": "over\ntwo lines"}]}',
        '{"ideas": []}\n{"note": "none"}',
    ],
)
def test_ideas_that_can_be_read_are_taken_whatever_stands_around_them(box, tmp_path, text):
    asked = Asked(box, ask(schema=SCHEMA))
    write(sent(tmp_path)[0], text)
    assert asked.answer().text == text


def test_an_edit_of_the_parent_is_an_answer(box, tmp_path):
    asked = Asked(box, ask())
    edit = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    write(sent(tmp_path)[0], edit)
    assert asked.answer().text == edit


def test_a_process_that_starts_again_finds_its_letter_and_the_answer_that_came_meanwhile(tmp_path):
    first = Mailbox(tmp_path, look_seconds=0.02)
    asked = Asked(first, ask())
    (letter,) = sent(tmp_path)
    asked.close()
    write(letter, FENCED)
    second = Mailbox(tmp_path, look_seconds=0.02)
    assert second.reply(ask()).text == FENCED
    assert letters(tmp_path) == [letter]
    # Whoever asks once more, because no record has it, is given the answer that lies there.
    third = Mailbox(tmp_path, look_seconds=0.02)
    assert third.reply(ask()).text == FENCED


def test_a_step_whose_figures_were_measured_anew_keeps_the_letter_that_was_sent(tmp_path):
    first = Mailbox(tmp_path, look_seconds=0.02)
    asked = Asked(first, ask("It takes 121 us."))
    (letter,) = sent(tmp_path)
    asked.close()
    write(letter, FENCED)
    second = Mailbox(tmp_path, look_seconds=0.02)
    assert second.reply(ask("It takes 119 us.")).text == FENCED
    assert letters(tmp_path) == [letter]


def test_two_questions_of_one_process_get_a_letter_each_whatever_their_seed(box, tmp_path):
    one, two = Asked(box, ask("one")), Asked(box, ask("two"))
    for letter in sent(tmp_path, 2):
        write(letter, FENCED)
    assert one.answer().text == two.answer().text == FENCED


def test_what_an_answer_held_is_told_where_it_was_of_no_use_to_whoever_asked(box, tmp_path):
    asked = Asked(box, ask("Write it."))
    (letter,) = sent(tmp_path)
    write(letter, FENCED)
    asked.answer()
    again = ask(
        "Write it.\n\n# An earlier reply could not be used\n\nIt was judged before.", seed=8
    )
    second = Asked(box, again)
    _, follow_up = sent(tmp_path, 2)
    told = letter.with_suffix(".problem.md").read_text()
    assert "It was judged before." in told
    assert follow_up.name in told
    write(follow_up, FENCED)
    second.answer()


def test_an_answer_that_is_still_being_written_is_not_read(box, tmp_path):
    asked = Asked(box, ask())
    (letter,) = sent(tmp_path)
    with letter.with_suffix(".reply.md").open("w") as file:
        for piece in (FENCED[i : i + 6] for i in range(0, len(FENCED), 6)):
            file.write(piece)
            file.flush()
            asked.look()
            assert asked.reply is None
    assert asked.answer().text == FENCED
    assert not list(tmp_path.glob("*.rejected-*"))


def test_a_link_or_a_pipe_in_place_of_an_answer_is_not_read(box, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text(FENCED)
    asked = Asked(box, ask())
    (letter,) = sent(tmp_path)
    reply = letter.with_suffix(".reply.md")
    reply.symlink_to(secret)
    asked.look(2)
    assert (tmp_path / f"{letter.stem}.rejected-1.md").is_symlink()
    os.mkfifo(reply)
    asked.look(2)
    assert (tmp_path / f"{letter.stem}.rejected-2.md").exists()
    assert asked.reply is None
    write(letter, FENCED)
    assert asked.answer().text == FENCED


def test_a_letter_stays_where_nobody_waits_for_its_answer_any_more(box, tmp_path):
    asked = Asked(box, ask())
    (letter,) = sent(tmp_path)
    assert box.waiting == (letter.stem,)
    asked.close()
    assert box.waiting == ()
    assert letter.exists()


def test_runs_have_folders_of_their_own(box, tmp_path):
    box.open("softmax-2")
    asked = Asked(box, ask())
    (letter,) = sent(tmp_path / "softmax-2")
    write(letter, FENCED)
    asked.answer()


def test_a_damaged_note_or_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    box = Mailbox(tmp_path, look_seconds=0.02)
    (tmp_path / "001-source-0123456789ab.json").write_text("{}")
    with pytest.raises(ModelError, match=r"001-source-0123456789ab\.json: expected what kb wrote"):
        box.open(".")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="name a folder that you may write to") as caught:
        Mailbox(tmp_path / "file").reply(ask())
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="name a folder that you may write to"):
        Mailbox(tmp_path / "file").open("softmax-1")
