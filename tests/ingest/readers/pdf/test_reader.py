from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import pytest
from reportlab.lib.pagesizes import A4, landscape
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from ingest.document import read_document
from ingest.readers import Block, ParsedFile
from kb.errors import RecordError

WIDTH, HEIGHT = A4
LEFT = 60
TEXT = (
    "A kernel that moves few bytes for each operation is bound by the memory of the device, and",
    "no better schedule of its arithmetic makes it any faster, whatever the compiler is told to do.",
)


def pdf(*pages: Callable[[Canvas], None], size: Any = A4, **options: Any) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=size, **options)
    for page in pages:
        page(canvas)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def write(
    canvas: Canvas, y: float, *lines: str, font: str = "Times-Roman", size: float = 10
) -> None:
    canvas.setFont(font, size)
    for number, line in enumerate(lines):
        canvas.drawString(LEFT, y - number * 1.2 * size, line)


def heading(canvas: Canvas, y: float, text: str, level: int, size: float = 16) -> None:
    write(canvas, y, text, font="Helvetica-Bold", size=size)
    canvas.bookmarkHorizontal(text, 0, y + size)
    canvas.addOutlineEntry(text, text, level=level)


def read(data: bytes, name: str = "dir/manual.pdf") -> ParsedFile:
    return read_document(data, name)


def blocks(reading: ParsedFile) -> list[Block]:
    return [block for one in reading.sections for block in one.blocks]


def trails(reading: ParsedFile) -> list[str]:
    return [" > ".join(one.trail) for one in reading.sections]


def body(canvas: Canvas) -> None:
    write(canvas, 700, *TEXT)


def test_headings_come_from_the_outline_with_their_pages() -> None:
    def first(canvas: Canvas) -> None:
        canvas.setTitle("The Toy Manual")
        heading(canvas, 740, "1 Memory", 0)
        body(canvas)
        heading(canvas, 640, "1.1 Caches", 1, size=12)
        write(canvas, 620, "Lines have 128 bytes.")

    def second(canvas: Canvas) -> None:
        write(canvas, 700, "They are never written back by a load, as was said.")
        heading(canvas, 600, "2 Clocks", 0)
        write(canvas, 580, "They drift.")

    reading = read(pdf(first, second))
    assert reading.title == "The Toy Manual"
    assert trails(reading) == [
        "The Toy Manual > 1 Memory",
        "The Toy Manual > 1 Memory > 1.1 Caches",
        "The Toy Manual > 2 Clocks",
    ]
    assert [(block.page, block.text[:12]) for block in blocks(reading)] == [
        (1, "A kernel tha"),
        (1, "Lines have 1"),
        (2, "They are nev"),
        (2, "They drift."),
    ]


def test_headings_without_an_outline_come_from_their_letters() -> None:
    def page(canvas: Canvas) -> None:
        write(canvas, 780, "Toy Manual", font="Helvetica-Bold", size=22)
        write(canvas, 740, "Memory", font="Helvetica-Bold", size=16)
        body(canvas)
        write(canvas, 640, "Caches", font="Helvetica-Bold", size=12)
        write(canvas, 620, *TEXT)
        write(canvas, 570, "Syntax", font="Times-Bold")
        write(canvas, 550, *TEXT)

    assert trails(read(pdf(page))) == [
        "Toy Manual > Memory",
        "Toy Manual > Memory > Caches",
        "Toy Manual > Memory > Caches > Syntax",
    ]


def test_lines_are_joined_to_paragraphs_and_cut_words_made_whole() -> None:
    def page(canvas: Canvas) -> None:
        write(canvas, 700, *TEXT)
        write(canvas, 660, "The warp sche\u00ad", "duler picks one.")
        write(canvas, 610, "\u2022 first item", "that goes on", "\u2022 second item")

    texts = [block.text for block in blocks(read(pdf(page)))]
    assert texts[0] == " ".join(TEXT)
    assert texts[1] == "The warp scheduler picks one."
    assert texts[2:] == ["- first item that goes on", "- second item"]


def test_a_paragraph_goes_on_on_the_next_page() -> None:
    def first(canvas: Canvas) -> None:
        write(canvas, 90, "The scheduler picks the oldest")

    def second(canvas: Canvas) -> None:
        write(canvas, 700, "warp that is ready.")

    (block,) = blocks(read(pdf(first, second)))
    assert block.text == "The scheduler picks the oldest warp that is ready."
    assert (block.page, block.end) == (1, 2)


CODE = (
    "__global__ void add(float *x, int n) {",
    "    for (int i = 0; i < n; ++i) {",
    "        x[i] += 1.0f;    // once",
    "    }",
    "}",
)


def test_listings_keep_indentation_columns_and_blank_lines() -> None:
    def page(canvas: Canvas) -> None:
        body(canvas)
        write(canvas, 640, *CODE, font="Courier", size=9)
        write(canvas, 640 - 7 * 10.8, "int main();", font="Courier", size=9)
        write(canvas, 500, "After it.")

    found = blocks(read(pdf(page)))
    assert [block.kind for block in found] == ["prose", "fence", "prose"]
    assert found[1].text == "```\n" + "\n".join(CODE) + "\n\nint main();\n```"


def test_a_listing_goes_on_on_the_next_page_at_its_own_margin() -> None:
    def first(canvas: Canvas) -> None:
        body(canvas)
        write(canvas, 120, *CODE[:3], font="Courier", size=9)

    def second(canvas: Canvas) -> None:
        write(canvas, 740, *CODE[3:], font="Courier", size=9)
        write(canvas, 600, "After it.")

    (listing,) = [block for block in blocks(read(pdf(first, second))) if block.kind == "fence"]
    assert listing.text == "```\n" + "\n".join(CODE) + "\n```"
    assert listing.page == 1


def test_a_name_in_a_paragraph_is_no_listing() -> None:
    def page(canvas: Canvas) -> None:
        write(canvas, 700, "It waits for all of them, as")
        write(canvas, 688, "cudaDeviceSynchronize", font="Courier")
        write(canvas, 676, "does on the host.")

    (block,) = blocks(read(pdf(page)))
    assert block.text == "It waits for all of them, as cudaDeviceSynchronize does on the host."


ROWS = (("Device", "Peak", "Note"), ("T1", "90", "with the\nclock fixed"), ("T2", "120", ""))


def grid(canvas: Canvas, top: float, rows: Any = ROWS) -> None:
    xs, height = (LEFT, 160, 260, 400), 30
    ys = [top - at * height for at in range(len(rows) + 1)]
    canvas.grid(xs, ys)
    canvas.setFont("Times-Roman", 10)
    for at, row in enumerate(rows):
        for x, cell in zip(xs, row, strict=False):
            for line, text in enumerate(cell.split("\n")):
                canvas.drawString(x + 4, ys[at] - 11 - 12 * line, text)


MARKDOWN = (
    "| Device | Peak | Note |\n| --- | --- | --- |\n"
    "| T1 | 90 | with the clock fixed |\n| T2 | 120 |  |"
)


def test_ruled_tables_keep_their_cells() -> None:
    def page(canvas: Canvas) -> None:
        body(canvas)
        grid(canvas, 640)
        write(canvas, 500, "After it.")

    found = blocks(read(pdf(page)))
    assert [block.kind for block in found] == ["prose", "table", "prose"]
    assert found[1].text == MARKDOWN


def test_two_tables_on_one_page_stay_two() -> None:
    def page(canvas: Canvas) -> None:
        grid(canvas, 740)
        write(canvas, 600, "Between them.")
        grid(canvas, 560)

    texts = [block.text for block in blocks(read(pdf(page)))]
    assert texts == [MARKDOWN, "Between them.", MARKDOWN]


def test_a_table_goes_on_on_the_next_page_without_its_repeated_header() -> None:
    def first(canvas: Canvas) -> None:
        body(canvas)
        grid(canvas, 180)

    def second(canvas: Canvas) -> None:
        grid(canvas, 700, (ROWS[0], ("T3", "150", "new")))
        write(canvas, 500, "After it.")

    found = [block for block in blocks(read(pdf(first, second))) if block.kind == "table"]
    assert [block.text for block in found] == [f"{MARKDOWN}\n| T3 | 150 | new |"]
    assert [(block.page, block.end) for block in found] == [(1, 2)]


def test_tables_with_rules_between_rows_only_keep_their_columns() -> None:
    def page(canvas: Canvas) -> None:
        body(canvas)
        for y in (640, 620, 560):
            canvas.line(LEFT, y, 400, y)
        canvas.setFont("Times-Roman", 10)
        for number, row in enumerate((("Device", "Peak"), ("T1", "90"), ("T2 (new)", "120"))):
            for x, cell in zip((LEFT, 300), row, strict=True):
                canvas.drawString(x, 627 - number * 20 - 2 * bool(number), cell)

    (found,) = [block for block in blocks(read(pdf(page))) if block.kind == "table"]
    assert found.text == "| Device | Peak |\n| --- | --- |\n| T1 | 90 |\n| T2 (new) | 120 |"


def test_columns_without_rules_are_a_table_and_justified_text_is_none() -> None:
    def page(canvas: Canvas) -> None:
        body(canvas)
        for number, row in enumerate(
            (("Device", "Peak"), ("T1", "90"), ("T2", "120"), ("T3", "9"))
        ):
            for x, cell in zip((LEFT, 300), row, strict=True):
                canvas.drawString(x, 620 - number * 14, cell)
        for number in range(4):
            line = canvas.beginText(LEFT, 500 - number * 12)
            line.setWordSpace(3)
            line.textOut("words with more space between them than they need " * 2)
            canvas.drawText(line)

    found = blocks(read(pdf(page)))
    assert [block.kind for block in found] == ["prose", "table", "prose"]
    assert found[1].text.endswith("| T1 | 90 |\n| T2 | 120 |\n| T3 | 9 |")


def test_a_box_around_text_is_no_table() -> None:
    def page(canvas: Canvas) -> None:
        body(canvas)
        canvas.rect(50, 560, 400, 60)
        write(canvas, 600, "A note in a box.")

    assert [block.kind for block in blocks(read(pdf(page)))] == ["prose", "prose"]


def running(number: int) -> Callable[[Canvas], None]:
    def page(canvas: Canvas) -> None:
        write(canvas, 812, f"Chapter {number // 4 + 1}: Things  |  {number + 16}", size=8)
        write(canvas, 30, "Toy Manual, Rev. 1.0", size=8)
        write(canvas, 700, f"What page {number} says.", *TEXT)

    return page


def test_running_headers_footers_and_page_numbers_are_dropped() -> None:
    reading = read(pdf(*(running(number) for number in range(12))))
    text = "\n".join(block.text for block in blocks(reading))
    assert "Chapter" not in text
    assert "Rev. 1.0" not in text
    assert all(f"What page {number} says." in text for number in range(12))


def test_a_table_of_contents_is_dropped() -> None:
    def contents(canvas: Canvas) -> None:
        for number in range(12):
            write(
                canvas,
                740 - 14 * number,
                f"Section {number} . . . . . . . . . . . . . {number + 3}",
            )

    def page(canvas: Canvas) -> None:
        body(canvas)

    (block,) = blocks(read(pdf(contents, page)))
    assert block.page == 2


def test_two_columns_are_read_one_after_the_other() -> None:
    def page(canvas: Canvas) -> None:
        canvas.setFont("Times-Roman", 10)
        for x, word in ((LEFT, "left"), (320, "right")):
            for number in range(20):
                canvas.drawString(
                    x, 740 - 12 * number, f"{word} column has line {number} of its text"
                )

    text = " ".join(block.text for block in blocks(read(pdf(page))))
    assert text.index("left column has line 19") < text.index("right column has line 0")


def test_a_page_on_its_side_is_read_along_its_text() -> None:
    def page(canvas: Canvas) -> None:
        canvas.translate(WIDTH, 0)
        canvas.rotate(90)
        write(canvas, 500, *TEXT)
        grid(canvas, 400)

    found = blocks(read(pdf(page)))
    assert [block.text for block in found] == [" ".join(TEXT), MARKDOWN]
    wide = blocks(read(pdf(lambda canvas: write(canvas, 500, *TEXT), size=landscape(A4))))
    assert [block.text for block in wide] == [" ".join(TEXT)]


def test_text_across_the_page_is_left_out() -> None:
    def page(canvas: Canvas) -> None:
        body(canvas)
        canvas.rotate(math.degrees(math.pi / 2))
        canvas.drawString(300, -40, "DRAFT")

    assert "DRAFT" not in str(read(pdf(page)).sections)


def test_scaled_letters_have_the_size_that_is_seen() -> None:
    def page(canvas: Canvas) -> None:
        body(canvas)
        text = canvas.beginText()
        text.setFont("Times-Roman", 1)
        text.setTextTransform(10, 0, 0, 10, LEFT, 600)
        text.textOut("Ten points, by a matrix.")
        canvas.drawText(text)

    found = read(pdf(page))
    assert len(found.sections) == 1
    assert blocks(found)[1].text == "Ten points, by a matrix."


def test_an_encrypted_pdf_is_one_line() -> None:
    lock = StandardEncryption("secret", canPrint=0)
    with pytest.raises(RecordError, match="asks for a password: save it without one"):
        read(pdf(body, encrypt=lock))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (pdf(body)[:300], "damaged"),
        (b"%PDF-1.7\n" + b"\0" * 5000, "damaged"),
        (b"<html>", "another format"),
        (pdf(lambda canvas: canvas.rect(10, 10, 50, 50)), "pages of pictures"),
    ],
)
def test_what_cannot_be_read_is_one_line(data: bytes, found: str) -> None:
    with pytest.raises(RecordError, match=found) as caught:
        read(data)
    assert "\n" not in str(caught.value)


def test_a_page_with_more_letters_than_paper_is_refused() -> None:
    def page(canvas: Canvas) -> None:
        for number in range(2100):
            write(canvas, 700 - number / 10, f"{number:0100d}")

    with pytest.raises(RecordError, match="characters on a page"):
        read(pdf(page))


def test_reading_stops_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.readers.pdf.reader.MAX_SECONDS", -1.0)
    with pytest.raises(RecordError, match="was at page 1 of 1: split it"):
        read(pdf(body))


def test_the_same_pdf_gives_the_same_sections() -> None:
    data = pdf(*(running(number) for number in range(4)))
    assert read(data) == read(data)
