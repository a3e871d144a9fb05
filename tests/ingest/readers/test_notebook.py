from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.document import read_document
from ingest.readers import ParsedFile
from kb.errors import RecordError


def read(notebook: Any) -> ParsedFile:
    return read_document(json.dumps(notebook).encode(), "dir/tour.ipynb")


def code(source: Any, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs), "metadata": {}}


def markdown(source: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def stream(text: Any) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def blocks(reading: ParsedFile) -> list[tuple[str, str]]:
    return [(" > ".join(one.trail), block.text) for one in reading.sections for block in one.blocks]


def test_text_and_code_are_read_under_the_headings_of_earlier_cells() -> None:
    cells = [
        markdown(["# Tour\n", "\n", "Intro.\n"]),
        markdown("## Tiles"),
        code(["x = 1\n", "\n", "y = 2"], stream(["1\n", "2\n"])),
    ]
    about = {"kernelspec": {"language": "julia"}}
    assert blocks(read({"nbformat": 4, "metadata": about, "cells": cells})) == [
        ("Tour", "Intro."),
        ("Tour > Tiles", "```julia\nx = 1\n\ny = 2\n```"),
        ("Tour > Tiles", "```output\n1\n2\n```"),
    ]


def test_pictures_pages_errors_and_long_outputs_are_left_out() -> None:
    outputs = [
        {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
        {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["secret trace"]},
        stream("line\n" * 100),
        {"output_type": "execute_result", "data": {"text/plain": ["42"]}},
    ]
    found = blocks(read({"cells": [markdown("# T"), code("f()", *outputs)]}))
    assert [text for _, text in found] == ["```python\nf()\n```", "```output\n42\n```"]


def test_a_fence_in_code_does_not_end_the_listing() -> None:
    found = blocks(read({"cells": [markdown("# T"), code('s = """\n```\n# no heading\n```\n"""')]}))
    assert len(found) == 1
    assert "# no heading" in found[0][1]


def test_format_three_is_read_too() -> None:
    old = {"cell_type": "code", "input": ["x = 1"], "language": "python", "outputs": []}
    sheet = {"cells": [{"cell_type": "heading", "level": 1, "source": ["Old"]}, old]}
    assert blocks(read({"nbformat": 3, "worksheets": [sheet]})) == [
        ("Old", "```python\nx = 1\n```")
    ]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"cells": 3}', "found at cells"),
        (b"[1, 2]", "found at the file"),
        (b"{", "Invalid JSON"),
        (b'{"cells": []}', "found none"),
        (b"[" * 100_000, "found at the file"),
    ],
)
def test_what_is_no_notebook_is_one_line(data: bytes, found: str) -> None:
    with pytest.raises(RecordError, match=found) as caught:
        read_document(data, "x.ipynb")
    assert "\n" not in str(caught.value)


def test_a_zero_byte_that_no_text_of_postgresql_holds_is_marked() -> None:
    reading = read({"nbformat": 4, "cells": [markdown("# Tour\n\nA\0B")]})
    assert "\0" not in reading.body
    assert ("Tour", "A\ufffdB") in blocks(reading)
