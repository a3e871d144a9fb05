from __future__ import annotations

from pathlib import Path

import pytest

from ingest.document import read_document
from ingest.readers import ParsedFile
from kb.errors import RecordError

PAGE = """
=======
Streams
=======

.. contents::

A *stream* orders :class:`~toy.Launch` objects, see :ref:`the guide <guide>`
and :py:func:`toy.sync`.

API
===

.. py:function:: toy.sync(stream=None)
   :noindex:

   Waits.

   :param stream: which one
   :returns: nothing

After the function.

.. versionadded:: 2.1
   Takes a stream.

.. warning:: It blocks.

.. code-block:: c++
   :linenos:

   launch<<<1, 32>>>(x);
       sync();

>>> sync()
True

Limits
------

.. table:: What it can do

   ===== ====== =======
   flag  least  most
   ===== ====== =======
   ``a`` 1      2|3
   b            4
   ===== ====== =======

+-----+-----+
| x   | y   |
+=====+=====+
| 1         |
+-----+-----+

1. first

   - inner

2. second::

      listing in a list

term
   What it means.

.. image:: secret.png
.. toctree::

   other
"""


def read(text: str) -> ParsedFile:
    return read_document(text.encode(), "dir/page.rst")


def blocks(reading: ParsedFile, trail: str) -> list[str]:
    found = (one for one in reading.sections if " > ".join(one.trail) == trail)
    return [block.text for one in found for block in one.blocks]


def test_sections_carry_their_breadcrumb() -> None:
    reading = read(PAGE)
    assert reading.title == "Streams"
    assert [" > ".join(one.trail) for one in reading.sections] == [
        "Streams",
        "Streams > API > toy.sync(stream=None)",
        "Streams > API",
        "Streams > API > Limits",
    ]


def test_roles_of_sphinx_are_read_as_what_they_show() -> None:
    assert blocks(read(PAGE), "Streams") == [
        "A stream orders `Launch` objects, see the guide and `toy.sync`."
    ]


def test_what_is_described_ends_with_its_description() -> None:
    assert blocks(read(PAGE), "Streams > API > toy.sync(stream=None)") == [
        "Waits.",
        "**param stream**: which one",
        "**returns**: nothing",
    ]
    assert blocks(read(PAGE), "Streams > API")[0] == "After the function."


def test_directives_listings_and_sessions_are_read_as_content() -> None:
    assert blocks(read(PAGE), "Streams > API")[1:] == [
        "Added in 2.1 Takes a stream.",
        "**Warning:** It blocks.",
        "```cpp\nlaunch<<<1, 32>>>(x);\n    sync();\n```",
        "```python\n>>> sync()\nTrue\n```",
    ]


def test_tables_of_both_kinds_keep_their_cells() -> None:
    found = blocks(read(PAGE), "Streams > API > Limits")
    assert found[:3] == [
        "What it can do",
        "| flag | least | most |\n| --- | --- | --- |\n| `a` | 1 | 2\\|3 |\n| b |  | 4 |",
        "| x | y |\n| --- | --- |\n| 1 | 1 |",
    ]


def test_lists_keep_their_order_and_give_up_their_listings_whole() -> None:
    found = blocks(read(PAGE), "Streams > API > Limits")
    assert found[3:] == [
        "1. first\n   - inner\n2. second:",
        "```\nlisting in a list\n```",
        "**term**: What it means.",
    ]


def test_no_other_file_is_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    text = (
        f"T\n=\n\nText.\n\n.. include:: {secret}\n\n.. literalinclude:: {secret}\n\n"
        f".. csv-table::\n   :file: {secret}\n\n.. raw:: html\n   :file: {secret}\n\n"
        ".. raw:: html\n\n   <script>x</script>\n"
    )
    shown = str(read(text).sections)
    assert "the secret" not in shown
    assert "<script>" not in shown


def test_unknown_and_broken_markup_is_no_failure() -> None:
    text = "T\n=\n\n.. nonsense:: a\n   :b: c\n\n   Kept.\n\n:nope:`word` and *open\n\nS\n-\n\nU\n~~\n|x|_\n"
    shown = str(read(text).sections)
    assert "Kept." in shown
    assert "word" in shown


def test_a_page_of_links_only_is_refused_with_one_line() -> None:
    with pytest.raises(RecordError, match="ingest what it includes") as caught:
        read("T\n=\n\n.. toctree::\n\n   a\n   b\n")
    assert "\n" not in str(caught.value)


def test_nesting_without_end_is_one_line() -> None:
    text = "\n".join("  " * depth + "- x\n" for depth in range(400))
    with pytest.raises(RecordError, match="nested too deeply"):
        read(text)
