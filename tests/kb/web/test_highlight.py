from __future__ import annotations

import html
import re

import pytest

from kb.web.highlight import lines, prose

SOURCE = 'import torch\n\nCPP = r"""\n#include <cmath>\nint main() { return 0; } // done\n""" + "x" * 200\n\nclass A:\n    y = 3\n'


def plain(source: str, language: str = "python") -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", "\n".join(lines(source, language))))


@pytest.mark.parametrize(
    "source", [SOURCE, "", "x", "def (", '"""', "a\n\n\nb", "  \n", "<b>&amp;</b>", "\t\x0b"]
)
def test_every_line_stays_as_it_is_written_and_where_it_is(source):
    shown = source.replace("\x0b", "␋")
    assert plain(source).rstrip("\n") == shown.rstrip("\n")


def test_cpp_in_a_python_string_is_coloured_as_cpp():
    long = SOURCE.replace(
        "int main", "// a comment that is long enough to be looked at\n" * 3 + "int main"
    )
    joined = "\n".join(lines(long))
    assert '<i class="co">// a comment' in joined
    assert '<i class="kw">import</i>' in joined


def test_nothing_of_a_source_is_mark_up():
    hostile = (
        'x = "</code><script>alert(1)</script>"  # <img src=x onerror=alert(1)>\n'
        + "<svg onload=a>" * 9
    )
    text = "\n".join(lines(hostile))
    assert "<script" not in text
    assert "<img" not in text
    assert "<svg" not in text
    assert set(re.findall(r"<(/?\w+)", text)) <= {"i", "/i"}


def test_prose_has_paragraphs_lists_tables_and_code():
    text = prose(
        "# Head\n\nA *word*.\n\n- one\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```cpp\nint x = a < b;\n```\n"
    )
    for part in (
        '<p class="heading">Head</p>',
        "<em>word</em>",
        "<li>one</li>",
        "<td>1</td>",
        "a &lt; b",
    ):
        assert part in text


@pytest.mark.parametrize(
    "text",
    ["[a](javascript:alert(1))", "![a](http://evil/x.png)", "<script>alert(1)</script>", "<http://evil>",
     "[a]: http://evil\n\n[a]", '<img src=x onerror="a">', "`<b>`", "```\"><script>\nx\n```", "http://evil"],
)  # fmt: skip
def test_prose_holds_no_link_picture_or_html(text):
    found = re.findall(r"<\s*/?\s*([a-zA-Z0-9]+)([^>]*)>", prose(text))
    assert {tag for tag, _ in found} <= {"p", "pre", "code", "em", "strong", "ul", "ol", "li"}
    assert all("on" not in more and "href" not in more for _, more in found)
