from pathlib import Path

import pytest

from kb.errors import ConfigError
from synth.context import Context
from synth.prompt import compose
from synth.template_loader import SHIPPED, Templates, shipped


def count(text: str) -> int:
    return len(text.split())


CONTEXT = Context(
    purpose="ideas",
    task="t",
    reference="class Model: ...",
    language="C++",
    library=True,
    target=("8 cores",),
    device="box",
    answer={"count": 1, "categories": ("a",), "example": {"title": "", "category": "", "text": ""}},
)


def test_the_first_folder_that_has_a_section_wins(tmp_path: Path) -> None:
    task, home = tmp_path / "task", tmp_path / "home"
    for folder in (task, home):
        folder.mkdir()
        (folder / "system.md.j2").write_text(f"{folder.name} {{% if x %}}")
    (home / "target.md.j2").write_text(
        "On <$ device $>:<% for one in items %> <$ one.text $><% endfor %>"
    )
    prompt = compose(CONTEXT, 1000, count, Templates([task, home]))
    assert prompt.messages[0].content == "task {% if x %}", "braces are text"
    parts = {part.name: part for part in prompt.sections}
    assert parts["target"].text == "On box: 8 cores"
    assert parts["target"].template == str(home / "target.md.j2")
    assert parts["task"].template == "shipped"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("sytem", "x", "no section is called 'sytem': known are answer_draft"),
        ("system", "<% if %>", "system.md.j2 line 1: "),
        ("system", "<$ x", "statements stand in <% %>"),
    ],
)
def test_a_template_that_cannot_be_read_is_one_line_with_its_place(
    tmp_path: Path, name: str, text: str, found: str
) -> None:
    (tmp_path / f"{name}.md.j2").write_text(text)
    with pytest.raises(ConfigError) as raised:
        Templates([tmp_path]).check()
    assert found in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_template_that_asks_for_what_is_not_there_names_what_is(tmp_path: Path) -> None:
    (tmp_path / "target.md.j2").write_text("<$ devise $>")
    with pytest.raises(
        ConfigError, match=r"'devise' is undefined: known values are device, items, purpose"
    ):
        compose(CONTEXT, 1000, count, Templates([tmp_path]))


def test_every_shipped_template_can_be_read() -> None:
    Templates([SHIPPED]).check()
    assert "expert" in shipped().render("system", {})
