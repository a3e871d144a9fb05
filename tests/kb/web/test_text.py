from __future__ import annotations

import pytest

from kb.web.text import LONG_LINE, address, shortened


def test_a_text_that_is_too_long_says_what_is_left_out():
    told = shortened("x" * 10_000_000)
    assert len(told) < LONG_LINE + 200
    assert "more characters" in told


@pytest.mark.parametrize("name", ["sinkhorn-1", "l2_norm", "a"])
def test_a_harmless_name_is_its_own_address(name):
    assert address(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "..", "../x", "a/b", "a.json", "A", "a--b", "<b>", "x\u202e", "-a", "a-", "é", "a" * 99],
)
def test_any_other_name_has_an_address_that_leads_nowhere_else(name):
    found = address(name)
    assert found != name
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert len(found) < 80


def test_names_that_look_alike_have_addresses_of_their_own():
    assert len({address(name) for name in ("a/b", "a b", "A b", "a.b")}) == 4
