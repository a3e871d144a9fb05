from __future__ import annotations

import pytest

from kb.errors import ConfigError
from search.portfolio.budget import Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("200000 tokens", 200000, "tokens"),
        ("200_000 tokens", 200000, "tokens"),
        ("20minutes", 20, "minutes"),
        ("1.5 Minutes", 1.5, "minutes"),
        ("1 candidate", 1, "candidates"),
    ],
)
def test_a_budget_is_a_number_and_a_unit(text, amount, unit):
    assert parse_budget(text) == Budget(amount=amount, unit=unit)


@pytest.mark.parametrize(
    "text", ["", "200000", "tokens", "0 tokens", "-3 minutes", "5 dollars", "1e400tokens"]
)
def test_what_is_no_budget_is_refused_in_one_line(text):
    with pytest.raises(ConfigError, match="expected a number of tokens, minutes or candidates"):
        parse_budget(text)
