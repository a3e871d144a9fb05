"""A budget as a user writes it: ``200000 tokens``, ``20 minutes``, ``300 candidates``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, get_args

from kb.errors import ConfigError

Unit = Literal["tokens", "minutes", "candidates"]
UNITS: tuple[Unit, ...] = get_args(Unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """So much of one thing, over all tasks together."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        return (
            f"{self.amount:g} {self.unit}"
            if self.amount < 1e6
            else f"{self.amount:.0f} {self.unit}"
        )


def parse_budget(text: str) -> Budget:
    """Return the budget that a text says.

    Raises:
        ConfigError: it says none.
    """
    found = re.fullmatch(r"\s*([\d_,]*\.?\d+(?:e\d+)?)\s*([a-z]+)\s*", text.lower())
    unit = next((one for one in UNITS if found and found[2] in {one, one[:-1]}), None)
    amount = float(re.sub("[_,]", "", found[1])) if found else 0.0
    if unit is None or not 0 < amount < math.inf:
        raise ConfigError(
            f"--budget: expected a number of {', '.join(UNITS[:-1])} or {UNITS[-1]}, found {text!r}: "
            "write for example --budget '200000 tokens'"
        )
    return Budget(amount=amount, unit=unit)
