"""Named parts, imported when first used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
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
    """

    def __init__(self, family: str, builtins: Mapping[str, str]) -> None:
        self._family = family
        self._builtins = dict(builtins)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths())

    def paths(self) -> dict[str, str]:
        """Return every known name with the place that it is imported from."""
        found = _others(entry_points, f"kb.{self._family}")
        return dict(sorted({**found, **self._builtins}.items()))

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
        return getattr(import_module(module), attribute)

    def create(self, name: str, *args: Any, **kwargs: Any) -> T:
        """Build the part called `name`."""
        return cast(T, self.factory(name)(*args, **kwargs))
