"""Jupyter notebooks: the text and the code, with outputs that are short text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ingest.readers import ParsedFile
from ingest.readers.blocks import fence
from ingest.readers.markup import cut, first_heading
from kb.errors import RecordError

MAX_OUTPUT = 600  # characters: a longer output is data, not an answer
MAX_OUTPUT_LINES = 12


class _Part(BaseModel):
    """Ignores what is not read here: the format leaves room for it."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _joined(value: Any) -> Any:
    """Return text that may be kept as a list of lines."""
    return "".join(value) if isinstance(value, list) else value


class _Output(_Part):
    output_type: str = ""
    text: str = ""
    data: dict[str, Any] = Field(default_factory=dict)

    _lines = field_validator("text", mode="before")(_joined)

    def shown(self) -> str:
        """Return the output as text; empty where it is a picture, a page or an error."""
        plain = _joined(self.data.get("text/plain", ""))
        rich = self.data.keys() - {"text/plain"}
        text = self.text or ("" if rich or not isinstance(plain, str) else plain)
        lines = text.count("\n") + 1
        return text if len(text) <= MAX_OUTPUT and lines <= MAX_OUTPUT_LINES else ""


class _Cell(_Part):
    cell_type: str
    source: str = ""
    input: str = ""  # what format 3 calls the source of code
    outputs: tuple[_Output, ...] = ()

    _lines = field_validator("source", "input", mode="before")(_joined)


class _Sheet(_Part):
    cells: tuple[_Cell, ...] = ()


class _Notebook(_Part):
    cells: tuple[_Cell, ...] = ()
    worksheets: tuple[_Sheet, ...] = ()  # of format 3
    metadata: dict[str, Any] = Field(default_factory=dict)

    def language(self) -> str:
        """Return the language of the code."""
        for place in ("language_info", "kernelspec"):
            about = self.metadata.get(place)
            if isinstance(about, dict):
                name = about.get("name" if place == "language_info" else "language")
                if isinstance(name, str) and name.isidentifier():
                    return name
        return "python"


class Notebook:
    """Reads a notebook as the Markdown that it would be without its server."""

    def read(self, text: str, path: str) -> ParsedFile:
        """Read a notebook of format 3 or 4.

        Raises:
            RecordError: it is not one.
        """
        try:
            notebook = _Notebook.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(step) for step in first["loc"]) or "the file"
            raise RecordError(
                f"expected a Jupyter notebook, found at {place}: {first['msg']}: "
                "save it again with Jupyter"
            ) from error
        cells = [*notebook.cells, *(cell for sheet in notebook.worksheets for cell in sheet.cells)]
        language = notebook.language()
        body = "\n\n".join(part for cell in cells for part in _parts(cell, language))
        body = body.replace("\0", "\ufffd")  # no text of PostgreSQL holds a zero
        if not body.strip():
            raise RecordError("expected a notebook with cells, found none: write something into it")
        title = first_heading(body) or PurePosixPath(path).stem
        return ParsedFile(kind="document", title=title, body=body, sections=cut(body, title))


def _parts(cell: _Cell, language: str) -> Iterator[str]:
    if cell.cell_type in {"markdown", "heading"}:
        yield f"# {cell.source}" if cell.cell_type == "heading" else cell.source
    elif cell.cell_type == "code":
        yield fence(cell.source or cell.input, language).text
        for output in cell.outputs:
            yield fence(output.shown(), "output").text
