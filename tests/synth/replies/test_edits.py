import pytest

from synth.replies.edits import EXAMPLE, apply_edits, has_edits
from synth.replies.source import extract_source

PROGRAM = """import torch
from torch import nn

SOURCE = r'''
for (int i = 0; i < n; ++i) {
  y[i] = x[i] * 2;
}
'''


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2
"""


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE"


def test_a_block_is_applied_and_the_rest_stays_as_it_was() -> None:
    found = extract_source(
        "I make it faster:\n```\n"
        + block("        return x * 2", "        return x + x")
        + "\n```",
        program=PROGRAM,
    )
    assert found.source == PROGRAM.replace("return x * 2", "return x + x")


def test_several_blocks_are_applied_in_order_on_what_the_ones_before_made() -> None:
    text = "\n".join(
        [
            block("  y[i] = x[i] * 2;", "  y[i] = x[i] + x[i];\n  // twice"),
            block("  // twice", ""),
            block("from torch import nn", "from torch import nn\nimport math"),
        ]
    )
    found = extract_source(text, program=PROGRAM)
    expected = PROGRAM.replace("x[i] * 2", "x[i] + x[i]").replace(
        "nn\n\n", "nn\nimport math\n\n", 1
    )
    assert found.source == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (block("    return x * 2", "    return x"), "line 13 has other white space"),
        (block("        return x * 3", "    return x"), "the nearest is 'return x * 2'"),
        (block("", "import os"), "empty first part"),
        (block("import torch\nSOURCE = r'''", "x"), "do not follow each other"),
        (block("import torch", "import torch"), "change nothing"),
        (block("import torch", "import ("), "not Python"),
        (block("class ModelNew(nn.Module):", "class Other(nn.Module):"), "no class ModelNew"),
        ("<<<<<<< SEARCH\nimport torch\n=======\nimport", "cut off before its >>>>>>> REPLACE"),
        ("<<<<<<< SEARCH\nimport torch\n", "cut off before its ======="),
        (block("turn x", "turn y"), "fits no place"),
    ],
)
def test_what_cannot_be_applied_exactly_is_refused_with_the_reason(text: str, problem: str) -> None:
    found = extract_source(text, program=PROGRAM)
    assert found.source is None
    assert problem in found.problem


def test_a_part_that_stands_twice_is_refused() -> None:
    twice = PROGRAM + "\nimport torch\n"
    assert "fits 2 places" in apply_edits(block("import torch", "import os"), twice).problem


def test_a_whole_file_beside_edits_counts() -> None:
    reply = block("import torch", "import os") + "\nOr rather:\n```python\n" + PROGRAM + "```\n"
    assert extract_source(reply, program="import torch\n").source == PROGRAM


def test_without_a_program_an_edit_is_no_answer() -> None:
    assert extract_source(block("import torch", "import os")).source is None


def test_the_example_of_the_format_is_read_as_one_block() -> None:
    assert has_edits(EXAMPLE)
    assert "fits no place" in apply_edits(EXAMPLE, PROGRAM).problem


def test_thoughts_about_an_edit_are_not_applied() -> None:
    thought = f"<think>\n{block('import torch', 'import os')}\n</think>\n"
    found = extract_source(
        thought + block("        return x * 2", "        return x"), program=PROGRAM
    )
    assert found.source is not None
    assert "import torch" in found.source


def test_an_edit_may_hold_lines_of_equal_signs_in_its_second_part() -> None:
    found = apply_edits(block("import torch", "import torch\n=======\nx = 1"), PROGRAM)
    assert found.source is not None
    assert "=======\nx = 1" in found.source
