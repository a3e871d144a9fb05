"""What patterns may ask of a reference: traits of its operators' forms, each with what shows it."""

from __future__ import annotations

from collections.abc import Iterator

from search.patterns.flow import Flow
from search.patterns.source import Text
from search.patterns.traits.attention import attention_traits
from search.patterns.traits.convolution import convolution_traits
from search.patterns.traits.indexing import indexing_traits, loop_traits
from search.patterns.traits.products import product_traits
from search.patterns.traits.rows import row_traits


def find_traits(flow: Flow, text: Text) -> dict[str, str]:
    """Return the traits of a reference, each with the first thing that shows it."""
    found: dict[str, str] = {}
    for name, shown in _all(flow, text):
        found.setdefault(name, shown)
    return found


def _all(flow: Flow, text: Text) -> Iterator[tuple[str, str]]:
    yield from attention_traits(flow)
    yield from convolution_traits(flow)
    yield from product_traits(flow)
    yield from row_traits(flow)
    yield from indexing_traits(flow)
    yield from loop_traits(flow, text)
