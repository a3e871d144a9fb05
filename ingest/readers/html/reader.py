"""HTML: Sphinx, Doxygen, rustdoc, wikis, and manuals of one page."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePosixPath

from ingest.readers import ParsedFile, Section
from ingest.readers.blocks import BlockOutline, body_of
from kb.errors import RecordError

_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]+encoding\s*=\s*["']([\w.:-]+)""")
_HEAD = 4096  # bytes in which a page says its encoding
# What these names mean on the web (WHATWG Encoding, section 4.2).
_ON_THE_WEB = {
    **dict.fromkeys(("latin1", "iso-8859-1", "iso8859-1", "ascii", "us-ascii"), "cp1252"),
    # A page whose bytes say so in ASCII is not in UTF-16 (WHATWG HTML, section 13.2.3.2).
    **dict.fromkeys(("utf-16", "utf-16le", "utf-16be", "unicode", "ucs-2"), "utf-8"),
    **dict.fromkeys(("gb2312", "gb_2312-80", "x-gbk", "chinese"), "gbk"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
}


class Html:
    """Reads the text proper: navigation, scripts, styles and hidden elements are left out."""

    def read(self, data: bytes, path: str) -> ParsedFile:
        """Read a page in its own encoding.

        Raises:
            RecordError: its encoding is not what it says, or it has no text.
        """
        from ingest.readers.html.markup import main_of, parse, stream, title_of

        page = parse(_decode(data))
        main = main_of(page)
        sections: tuple[Section, ...] = ()
        title = PurePosixPath(path).stem
        if main is not None:
            title = title_of(page, main) or title
            outline = BlockOutline(title)
            outline.extend(stream(main))
            sections = outline.sections()
        if not sections:
            raise RecordError(
                "expected a page with text, found none in it: save the page as a browser shows it"
            )
        return ParsedFile(kind="document", title=title, body=body_of(sections), sections=sections)


def _decode(data: bytes) -> str:
    name = _encoding(data)
    try:
        return data.decode(name).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    except LookupError as error:
        raise RecordError(
            f"expected a known encoding, found {name!r}: convert it to UTF-8"
        ) from error
    except UnicodeDecodeError as error:
        raise RecordError(
            f"expected {name} text, found byte {data[error.start]:#04x} at {error.start}: "
            "convert it to UTF-8"
        ) from error


def _encoding(data: bytes) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            return name
    found = _CHARSET.search(data[:_HEAD]) or _XML.search(data[:_HEAD])
    name = found[1].decode("ascii").lower() if found else "utf-8"
    return _ON_THE_WEB.get(name, name)
