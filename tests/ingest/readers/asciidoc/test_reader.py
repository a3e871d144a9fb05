from __future__ import annotations

import pytest

from ingest.document import read_document
from ingest.readers import Reading
from kb.errors import RecordError

PAGE = """= The Toy Specification
:toc:
:version: 3.1
:loop: {loop}{loop}

Version {version}, see link:other.html[the other one] and <<mem,Memory>>. {loop}

// a remark
[[mem]]
== Memory

.Copying
[source,opencl]
----
kernel void copy() {
    int x;

}
----

NOTE: It waits.

[WARNING]
====
It blocks.
====

////
never shown
////

=== Limits

[cols="1,2*", options="header"]
|===
|Name |Least |Most

|`CL_A`
|1
|2

2+|both | 3
|===

,===
a,b
1,"2,3"
,===

* one
* two
+
more

....
plain
  listing
....

include::/etc/passwd[]
ifdef::x[]
Kept.
endif::[]

++++
<script>alert(1)</script>
++++
"""


def read(text: str) -> Reading:
    return read_document(text.encode(), "dir/page.adoc")


def blocks(trail: str, text: str = PAGE) -> list[str]:
    found = (one for one in read(text).sections if " > ".join(one.trail) == trail)
    return [block.text for one in found for block in one.blocks]


def test_headings_make_the_breadcrumb() -> None:
    assert [" > ".join(one.trail) for one in read(PAGE).sections] == [
        "The Toy Specification",
        "The Toy Specification > Memory",
        "The Toy Specification > Memory > Limits",
    ]


def test_inline_markup_is_read_as_what_it_shows() -> None:
    assert blocks("The Toy Specification") == [
        "Version 3.1, see the other one and Memory. {loop}{loop}"
    ]


def test_listings_and_admonitions_are_kept() -> None:
    assert blocks("The Toy Specification > Memory") == [
        "**Copying**",
        "```opencl\nkernel void copy() {\n    int x;\n\n}\n```",
        "**Note:** It waits.",
        "**Warning:** It blocks.",
    ]


def test_tables_have_their_columns_however_they_are_written() -> None:
    found = blocks("The Toy Specification > Memory > Limits")
    assert found[:2] == [
        "| Name | Least | Most |\n| --- | --- | --- |\n| `CL_A` | 1 | 2 |\n| both | both | 3 |",
        "| a | b |\n| --- | --- |\n| 1 | 2,3 |",
    ]


def test_nothing_is_included_and_raw_html_is_left_out() -> None:
    found = blocks("The Toy Specification > Memory > Limits")
    assert found[2:] == ["* one\n* two", "more", "```\nplain\n  listing\n```", "Kept."]


def test_roles_terms_and_names_are_read_as_what_they_show() -> None:
    text = (
        "= T\n\n.[apidef]#khr::copy#\n[source,role=synopsis]\n----\nvoid copy();\n----\n\n"
        "Takes [code]#nd_item#, see {CL_DEVICE_INFO}.\n\n*Status*::\n  Draft\n"
    )
    assert blocks("T", text) == [
        "**`khr::copy`**",
        "```\nvoid copy();\n```",
        "Takes `nd_item`, see CL_DEVICE_INFO.",
        "**Status**: Draft",
    ]


def test_titles_of_two_lines_count() -> None:
    text = "Toy\n===\n\nIntro.\n\nPart\n----\nText.\n\nSub\n~~~\nMore.\n"
    assert blocks("Toy > Part", text) == ["Text."]
    assert blocks("Toy > Part > Sub", text) == ["More."]


def test_a_table_that_never_ends_is_read_to_the_end() -> None:
    assert blocks("page", "|===\n|a |b\n|1 |2\n") == ["| a | b |\n| --- | --- |\n| 1 | 2 |"]


def test_a_file_that_only_includes_is_refused_with_one_line() -> None:
    with pytest.raises(RecordError, match="ingest the included files") as caught:
        read("= T\n\ninclude::a.adoc[]\n")
    assert "\n" not in str(caught.value)
