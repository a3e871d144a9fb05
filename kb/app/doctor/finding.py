"""What `kb doctor` says about one part of the installation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["works", "limited", "broken", "off"]


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One part of the installation."""

    part: str
    state: State
    detail: str
    advice: str = ""
