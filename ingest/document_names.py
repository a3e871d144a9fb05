"""What quotations call documents: no two of a store are called the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ingest.sources.files import printable


class DocumentNames:
    """The names of the documents of a store, and of those that come to it.

    Args:
        shown: the name of each document that is there, by its key; of two with one name the first
            keeps it when they are read again.
    """

    def __init__(self, shown: Mapping[str, str]) -> None:
        self._shown = dict(shown)
        self._owners: dict[str, str] = {}
        for key, name in shown.items():
            self._owners.setdefault(name, key)

    def give(self, key: str, shown: str) -> str:
        """Return the name of a document: `shown`, with folders before it where another has it.

        A document that has such a longer name keeps it.
        """
        had = self._shown.get(key, "")
        wanted = had if had.endswith(f"/{shown}") else shown
        free = (one for one in _longer(key, wanted) if self._owners.get(one, key) == key)
        name = next(free, key)
        self._owners[name] = key
        self._shown[key] = name
        return name


def _longer(key: str, shown: str) -> Iterator[str]:
    """Yield `shown`, then with one more folder of the key before it each time."""
    yield shown
    above = key.split("/")[: -len(shown.split("/"))]
    name = shown
    while above and above[-1]:
        name = f"{printable(above.pop())}/{name}"
        yield name
