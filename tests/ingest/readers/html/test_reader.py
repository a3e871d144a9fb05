from __future__ import annotations

import re

import pytest

from ingest.document import read_document
from ingest.readers import ParsedFile
from kb.errors import RecordError

SPHINX = """<!DOCTYPE html><html><head><meta charset="utf-8">
<title>Streams &#8212; Toy 1.0 documentation</title>
<style>body { color: red }</style><script>alert("run me")</script></head>
<body><div class="related" role="navigation"><a href="index.html">next chapter</a></div>
<div class="document"><div class="body" role="main">
<section id="streams"><h1>Streams<a class="headerlink" href="#streams">¶</a></h1>
<p>A <em>stream</em> orders <code class="docutils literal">launches</code>,
and x<sup>2</sup>.</p>
<div class="highlight-python3 notranslate"><div class="highlight"><pre><span class="k">for</span> i in x:
    <span>launch</span>(i)

print()
</pre></div></div>
<section id="api"><h2>API<a class="headerlink" href="#api">¶</a></h2>
<dl class="py function"><dt class="sig sig-object py" id="toy.sync">
<span class="sig-prename">toy.</span><span class="sig-name">sync</span><span>(</span><em>stream=None</em><span>)</span>
<a class="headerlink" href="#toy.sync">¶</a></dt>
<dd><p>Waits for a stream.</p></dd></dl>
<p>After the functions.</p>
<table class="docutils"><thead><tr><th>flag</th><th>meaning</th></tr></thead>
<tbody><tr><td rowspan="2">a|b</td><td>one</td></tr><tr><td>two</td></tr></tbody></table>
<ul><li><p>first</p><ul><li>inner</li></ul></li><li>second
<pre>code in a list</pre></li></ul>
</section></section></div>
<div class="sphinxsidebar" role="navigation">Table of contents</div></div>
<div class="footer" role="contentinfo">Copyright</div></body></html>
"""

DOXYGEN = """<html><head><title>Toy: memory</title></head><body>
<div id="top"><div id="titlearea">Toy Reference</div></div>
<div class="header"><div class="headertitle"><div class="title">Memory
<div class="ingroups"><a>Modules</a></div></div></div></div>
<div class="contents"><h2 class="groupheader">Functions</h2>
<h2 class="memtitle"><span class="permalink"><a>&#9670;</a></span>copy()</h2>
<div class="memitem"><div class="memproto"><table class="memname"><tr><td class="memname">void copy</td>
<td>(</td><td>float *&#160;</td><td>to</td><td>)</td></tr></table></div>
<div class="memdoc"><p>Copies.</p><div class="fragment"><div class="line">int x;</div>
<div class="line">  copy(&amp;x);</div></div></div></div></div></body></html>
"""


def read(page: str) -> ParsedFile:
    return read_document(page.encode(), "dir/page.html")


def shown(reading: ParsedFile) -> str:
    return "\n".join(block.text for one in reading.sections for block in one.blocks)


def test_a_page_of_sphinx_is_read_without_its_furniture() -> None:
    reading = read(SPHINX)
    assert reading.title == "Streams"
    text = shown(reading)
    for noise in ("run me", "color: red", "next chapter", "Table of contents", "Copyright", "¶"):
        assert noise not in text
    assert "A stream orders `launches`, and x^2." in text


def test_what_a_program_can_call_is_a_section_that_ends_with_its_description() -> None:
    found = {" > ".join(one.trail): one for one in read(SPHINX).sections}
    function = found["Streams > API > toy.sync(stream=None)"]
    assert [block.text for block in function.blocks] == ["Waits for a stream."]
    assert found["Streams > API"].blocks[0].text == "After the functions."


def test_listings_keep_their_indentation_and_language() -> None:
    block = next(b for one in read(SPHINX).sections for b in one.blocks if b.kind == "fence")
    assert block.text == "```python\nfor i in x:\n    launch(i)\n\nprint()\n```"


def test_tables_keep_rows_that_span_and_bars_in_cells() -> None:
    block = next(b for one in read(SPHINX).sections for b in one.blocks if b.kind == "table")
    assert block.text == ("| flag | meaning |\n| --- | --- |\n| a\\|b | one |\n| a\\|b | two |")


def test_lists_are_nested_and_give_up_their_listings_whole() -> None:
    texts = [block.text for one in read(SPHINX).sections for block in one.blocks]
    assert "- first\n  - inner\n- second" in texts
    assert "```\ncode in a list\n```" in texts


def test_doxygen_gives_prototypes_and_fragments_as_code() -> None:
    reading = read(DOXYGEN)
    assert [one.trail for one in reading.sections] == [("Memory", "copy()")]
    texts = [block.text for block in reading.sections[0].blocks]
    assert texts == [
        "```cpp\nvoid copy ( float * to )\n```",
        "Copies.",
        "```\nint x;\n  copy(&x);\n```",
    ]


def test_an_index_of_links_is_no_document() -> None:
    page = "<h1>Index</h1><table class='genindextable'><tr><td><a>sync()</a></td></tr></table>"
    with pytest.raises(RecordError, match="none in it"):
        read(page)


def test_the_name_of_a_site_is_no_part_of_a_title() -> None:
    head = "<head><title>Streams \u2014 Toy 1.0 documentation</title></head>"
    assert read(f"{head}<h1>A</h1><p>x</p><h1>B</h1><p>y</p>").title == "Streams"


def test_hidden_text_is_not_read() -> None:
    page = (
        '<p>seen</p><p hidden>a</p><p style="display:none">b</p><p style="visibility: hidden">c</p>'
    )
    assert shown(read(page)) == "seen"


def test_a_page_is_read_in_the_encoding_that_it_names() -> None:
    page = "<html><head><meta charset='iso-8859-1'></head><body>10 µs “fast”</body></html>"
    reading = read_document(page.encode("cp1252"), "a.htm")
    assert shown(reading) == "10 µs “fast”"
    assert shown(read_document(page.encode("utf-16"), "a.htm")) == "10 µs “fast”"


@pytest.mark.parametrize(
    ("named", "bytes_in", "text"),
    [
        ("utf-16", "utf-8", "10 µs “fast”"),
        ("UTF-16LE", "utf-8", "tiles"),
        ("gb2312", "gbk", "镕"),
        ("shift_jis", "cp932", "① タイル"),
    ],
)
def test_a_name_of_an_encoding_means_what_it_means_to_browsers(
    named: str, bytes_in: str, text: str
) -> None:
    page = f"<html><head><meta charset={named}></head><body>{text}</body></html>"
    assert shown(read_document(page.encode(bytes_in), "a.htm")) == text


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"<p>caf\xe9</p>", "0xe9 at 6"),
        (b"<meta charset=klingon><p>x</p>", "'klingon'"),
        (b"<script>document.write('all')</script>", "none in it"),
    ],
)
def test_a_page_that_cannot_be_read_is_one_line(data: bytes, found: str) -> None:
    with pytest.raises(RecordError, match=found) as caught:
        read_document(data, "a.html")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "tag", ["div", "span", "b", "ul><li", "table><tr><td", "dl><dd", "blockquote"]
)
def test_elements_in_elements_without_end_are_read_in_bounded_time(tag: str) -> None:
    assert "deep" in shown(read(f"<p>x</p>{f'<{tag}>' * 1500}deep"))


def test_a_cell_cannot_claim_a_million_columns() -> None:
    page = "<table><tr><th colspan=1000000 rowspan=1000000>a</th><th>b</th></tr><tr><td>c</td></tr></table>"
    assert len(shown(read(page))) < 10_000


def test_html_in_markdown_is_read_as_a_browser_shows_it() -> None:
    text = "# T\n\n<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\n\n<!-- no -->\n"
    (section,) = read_document(text.encode(), "x.md").sections
    assert [(block.kind, block.text) for block in section.blocks] == [
        ("table", "| a | b |\n| --- | --- |\n| 1 | 2 |")
    ]


def test_the_same_page_gives_the_same_sections() -> None:
    assert read(SPHINX) == read(SPHINX)
    assert re.search("<[a-z]", shown(read(SPHINX))) is None
