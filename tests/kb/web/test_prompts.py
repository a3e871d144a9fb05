from __future__ import annotations

from kb.web.prompts import parts


def test_a_prompt_is_cut_at_its_own_headings_not_at_those_of_what_it_quotes():
    text = "Before.\n\n# Task\n\n```python\n# a comment\n```\n\n# Passages\n\n````markdown\n# Quoted\n```\n# inner\n```\n````\nend"
    assert [head for head, _ in parts(text)] == ["", "Task", "Passages"]
    assert parts(text)[1][1] == "```python\n# a comment\n```"
    assert parts(text)[2][1].endswith("````\nend")


def test_nothing_of_a_prompt_is_lost_where_a_fence_never_ends():
    text = "# A\n```\n# B\nrest"
    assert parts(text) == [("A", "```\n# B\nrest")]
    assert parts("") == []
