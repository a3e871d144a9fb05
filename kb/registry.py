"""Named parts, imported when first used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from kb.errors import ConfigError

T = TypeVar("T")


@cache
def _others(find: Callable[..., Iterable[EntryPoint]], group: str) -> dict[str, str]:
    # A look reads the metadata of all that is installed, for 6 ms.
    return {point.name: point.value for point in find(group=group)}


class Registry(Generic[T]):
    """The parts of one family by name.

    Built-in parts and those of other distributions (entry points in the group ``kb.<family>``)
    are found the same way. Nothing is imported until `create` is called.

    Args:
        family: the singular noun of the family, used in messages and in the entry-point group.
        builtins: name -> ``"module:attribute"``.
        extensible: whether other distributions can add parts; False where judging them needs more
            than the part itself.
    """

    def __init__(
        self, family: str, builtins: Mapping[str, str], *, extensible: bool = True
    ) -> None:
        self._family = family
        self._builtins = dict(builtins)
        self._extensible = extensible

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths())

    def paths(self) -> dict[str, str]:
        """Return every known name with the place that it is imported from."""
        return dict(sorted({**self.added(), **self._builtins}.items()))

    def added(self) -> dict[str, str]:
        """Return the parts of other distributions, by name; none of them takes a built-in name."""
        if not self._extensible:
            return {}
        found = _others(entry_points, f"kb.{self._family}")
        return {name: place for name, place in found.items() if name not in self._builtins}

    def check(self, name: str) -> str:
        """Return `name` where it is known.

        Raises:
            ConfigError: the name is unknown; the message lists the known ones.
        """
        known = self.paths()
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ConfigError(
                f"unknown {self._family} {name!r}{hint}: known are {', '.join(known) or 'none'}"
            )
        return name

    def factory(self, name: str) -> Any:
        """Return the class or function registered under `name`, importing its module."""
        module, _, attribute = self.paths()[self.check(name)].partition(":")
        return attrgetter(attribute)(import_module(module))

    def create(self, name: str, *args: Any, **kwargs: Any) -> T:
        """Build the part called `name`."""
        return cast(T, self.factory(name)(*args, **kwargs))
