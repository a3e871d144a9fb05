from __future__ import annotations

import io

import pytest
from reportlab.pdfgen.canvas import Canvas

from ingest.document import read_document
from ingest.readers import ParsedFile


def said(read: ParsedFile) -> str:
    asked = [one for group in read.asked.values() for one in group]
    trails = [step for one in read.sections for step in one.trail]
    return "".join([read.title, read.body, *trails, *asked, *read.symptoms])


def outlined() -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.setTitle("Memory\0manual")
    canvas.bookmarkPage("one")
    canvas.addOutlineEntry("Shared\0memory", "one")
    canvas.drawString(72, 500, "A tile is kept in shared memory while it is used.")
    canvas.save()
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.md", b'---\ntitle: "Tiles\\0 in memory"\n---\nText.\n'),
        ("x.md", b'---\nkind: guide\ntitle: "Til\\0es"\nasked: ["wh\\0y"]\n---\n## How\n\nSo.\n'),
        ("x.pdf", outlined()),
    ],
)
def test_what_is_read_has_no_zero_in_it(name: str, data: bytes) -> None:
    text = said(read_document(data, name))
    assert "\0" not in text
    assert "\ufffd" in text
