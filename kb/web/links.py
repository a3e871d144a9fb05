"""Addresses of pages: on a server from its root, in a static site from the page that links."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class Served:
    """Addresses on a server."""

    def __call__(self, *parts: object, **query: object) -> str:
        """Return the address of a page, with what its query says; empty values are left out."""
        told = {name: value for name, value in query.items() if value not in ("", None)}
        asked = f"?{urlencode(told)}" if told else ""
        return "/" + "/".join(quote(str(part), safe="-_.~") for part in parts) + asked

    def has(self, *_parts: object) -> bool:
        """Say whether there is such a page: what a page names is on record."""
        return True

    def json(self, *parts: object) -> str:
        """Return the address of a page's values."""
        return f"{self(*parts)}.json" if parts else "/index.json"

    def static(self, name: str) -> str:
        """Return the address of a file that pages share."""
        return f"/static/{name}"


@dataclass(frozen=True, slots=True)
class Filed:
    """Addresses in a folder, seen from a page `depth` folders down; queries are not there.

    Attributes:
        pages: files of the site, so that nothing links to a page that was not written.
    """

    depth: int
    pages: frozenset[str]

    def __call__(self, *parts: object, **_query: object) -> str:
        """Return the address of a page."""
        return "../" * self.depth + file_name(*parts)

    def has(self, *parts: object) -> bool:
        """Say whether the site has such a page."""
        return file_name(*parts) in self.pages

    def static(self, name: str) -> str:
        """Return the address of a file that pages share."""
        return "../" * self.depth + f"static/{name}"


def file_name(*parts: object) -> str:
    """Return where a static site keeps a page: parts are addresses and numbers, never names."""
    return "/".join(map(str, parts)) + ".html" if parts else "index.html"


Links = Served | Filed
