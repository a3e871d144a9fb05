import ast

import pytest
from growth import QUADRATIC, growth
from hypothesis import given
from hypothesis import strategies as st

from synth.replies.source import extract_source, without_thoughts

FILE = '''import torch
from torch import nn

CPP = r"""
extern "C" void f(float* x) { x[0] = 1; }
"""


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2
'''
OTHER = FILE.replace("x * 2", "x * 3")
HALF = FILE[: FILE.index("return")]


def fenced(source: str, label: str = "python", bar: str = "```") -> str:
    return f"{bar}{label}\n{source}{bar}\n"


@pytest.mark.parametrize(
    "reply",
    [
        fenced(FILE),
        "Here is the file:\n\n" + fenced(FILE) + "\nIt is faster because it does less.",
        fenced(FILE, "cpp"),
        fenced(FILE, ""),
        fenced(FILE, "Python title=x.py"),
        fenced(FILE, "python", "~~~"),
        fenced(FILE, "python", "`````"),
        fenced(FILE).replace("\n", "\r\n"),
        "\ufeff" + fenced(FILE),
        "1. The file:\n\n" + "".join(f"   {line}\n" for line in fenced(FILE).splitlines()),
        "<think>\nMaybe like this:\n" + fenced(OTHER) + "No.\n</think>\n" + fenced(FILE),
        "I first thought\n" + fenced(OTHER) + "</think>\n" + fenced(FILE),
        "<reasoning>short</reasoning>\n" + fenced(FILE),
        fenced(OTHER) + "On reflection, better:\n" + fenced(FILE),
        fenced(FILE) + "Use it so:\n" + fenced("model = ModelNew()\nprint(model(x))\n"),
        fenced("pip install torch\n", "bash") + fenced(FILE),
        fenced("extern void f();\n", "cpp") + fenced(FILE),
        fenced(FILE)[:-4],  # the closing fence is missing, the file is not
        FILE,
        "Sure, this is it.\n\n" + FILE,
        FILE + "\nThis fuses both steps, so memory is read once.\n",
    ],
)
def test_the_file_is_found_whatever_stands_around_it(reply: str) -> None:
    found = extract_source(reply)
    assert found.problem == ""
    assert found.source == FILE


def test_a_file_that_quotes_a_fence_is_not_cut_there() -> None:
    source = FILE.replace("import torch\n", '"""Use:\n```\nModelNew()\n```\n"""\nimport torch\n', 1)
    assert extract_source("Look:\n" + fenced(source) + "Done.").source == source


def test_a_file_that_was_split_over_fences_is_put_together() -> None:
    head, tail = FILE[: FILE.index("class")], FILE[FILE.index("class") :]
    found = extract_source("Imports:\n" + fenced(head) + "The class:\n" + fenced(tail))
    assert found.source is not None
    assert ast.dump(ast.parse(found.source)) == ast.dump(ast.parse(FILE))


@pytest.mark.parametrize(
    ("reply", "finish", "problem"),
    [
        ("", "stop", "the reply is empty"),
        ("  \n ", "stop", "the reply is empty"),
        ("I cannot help with that.", "stop", "holds no fenced code"),
        ("<think>\nLet me see, tiles of", "length", "inside its thinking block"),
        ("<think>\n" + fenced(FILE), "stop", "inside its thinking block"),
        ("```python\n" + HALF, "length", "cut off before the file ended"),
        ("```python\n" + FILE, "length", "cut off before the file ended"),
        ("Text\n" + FILE, "length", "holds no fenced code"),
        (fenced(HALF), "stop", "not Python (line 10"),
        (fenced("class ModelNew(:\n  pass\n"), "stop", "not Python (line 1"),
        (fenced("class Net:\n    pass\n"), "stop", "no fence defines class ModelNew (found Net)"),
        (fenced("def f():\n    class ModelNew: pass\n"), "stop", "not defined at the top level"),
        (fenced("void f() { return; }\n", "cpp"), "stop", "labelled 'cpp' holds no Python file"),
        (
            fenced(
                FILE.replace(
                    "        return x", "        # ... rest unchanged ...\n        return x"
                )
            ),
            "stop",
            "leaves parts out (line 11",
        ),
        (fenced("class ModelNew:\n    x = '\0'\n"), "stop", "not Python"),
    ],
)
def test_what_was_wrong_is_said_in_one_line(reply: str, finish: str, problem: str) -> None:
    found = extract_source(reply, finish)
    assert found.source is None
    assert problem in found.problem
    assert "\n" not in found.problem


def test_an_escape_that_python_warns_of_is_no_trouble() -> None:
    source = FILE.replace('r"""', '"""').replace("x[0] = 1", 'x[0] = "\\d"')
    assert extract_source(fenced(source)).source == source


@pytest.mark.parametrize(
    "comment",
    [
        "# ... (rest of the code unchanged)",
        "# … same as before",
        "# the rest of the kernel",
        "// ... existing code ...",
        "# unchanged ...",
    ],
)
def test_a_comment_that_stands_for_code_is_refused(comment: str) -> None:
    source = FILE.replace("        return", f"        {comment}\n        return")
    if comment.startswith("//"):
        source = FILE.replace('extern "C"', f'{comment}\nextern "C"')
    found = extract_source(fenced(source))
    assert found.source is None
    assert "leaves parts out" in found.problem


@pytest.mark.parametrize(
    "comment",
    [
        "# all but the last axis ...",
        "# same as above, but transposed",
        "# the rest of the row is handled here",
        "# remaining elements: a scalar loop ...",
        "# load ... before the barrier",
    ],
)
def test_an_honest_comment_is_no_omission(comment: str) -> None:
    source = FILE.replace("        return", f"        {comment}\n        return")
    assert extract_source(fenced(source)).source == source


PIECES = st.lists(
    st.sampled_from(
        ["```", "```python\n", "~~~", "<think>", "</think>", "\n", "class ModelNew", ":\n", " pass",
         "import torch\n", "(", "'''", "...", "#", "    ", "prose ", "\0", "{", '"ideas": [', "]", "}"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@pytest.mark.slow
@given(st.one_of(PIECES, st.text(max_size=60)), st.sampled_from(["stop", "length"]))
def test_no_reply_breaks_the_reader_and_what_it_gives_is_a_file(reply: str, finish: str) -> None:
    found = extract_source(reply, finish)
    assert (found.source is None) == bool(found.problem)
    assert "\n" not in found.problem
    if found.source is not None:
        assert "ModelNew" in {getattr(node, "name", "") for node in ast.parse(found.source).body}


@pytest.mark.parametrize(
    "unit",
    [
        "```",
        "``` ",
        "```" + " " * 999 + "`",
        "<think>\n",
        "import a\n",
        "import a\n# ModelNew\n",
        "# ...",
        "'''\n",
        "(((",
        "```\nx\n```\n",
        "```\nModelNew\n```\n",
        "```\nModelNew\n",
    ],
)
def test_a_model_that_repeats_itself_for_ever_is_read_soon(unit: str) -> None:
    reply = (unit * 40_000)[:40_000]
    assert extract_source(reply).source is None
    assert growth(lambda part: extract_source(reply[: int(part * len(reply))])) < QUADRATIC


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("b\n<thinking>\nc", "b\n"),
        ("the <think> tag is explained", "the <think> tag is explained"),
        ("<think>a", None),
    ],
)
def test_thoughts_are_dropped(text: str, left: str | None) -> None:
    assert without_thoughts(text) == left
