"""In which order ideas come that begin with torch.compile's code."""

from typing import Any

import pytest

from search.codegen.inductor.proposals import second


@pytest.mark.parametrize(
    ("ahead", "found"),
    [("abc", "asbc"), ("a", "as"), ("", "s")],
)
def test_what_is_sure_comes_second_at_latest(ahead: Any, found: str) -> None:
    assert "".join(second(iter(ahead), "s")) == found  # type: ignore[arg-type]
