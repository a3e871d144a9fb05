"""Greedy: the best attempt is the only parent."""

from __future__ import annotations

from search.policies.beam import Beam


class Greedy(Beam):
    """A beam of width one."""

    def __init__(self) -> None:
        super().__init__(width=1)
