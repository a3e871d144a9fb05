from __future__ import annotations

from pathlib import Path

import pytest

from kb.app.resume import stored_task
from kb.config import Home
from kb.errors import StoreError

TWO = [{"name": "a", "weight": 2.0}, {"name": "b"}]


@pytest.mark.parametrize("choose", ["bandit", "weights"])
def test_a_run_of_a_version_with_a_bandit_is_taken_up_with_its_models(
    tmp_path: Path, choose: str
) -> None:
    about = {
        "task": "t", "path": "t.yaml", "reference": "t.py", "source": "x = 1",
        "settings": {"reference": "t.py", "models": {"code": TWO, "ideas": None, "choose": choose}},
    }  # fmt: skip
    models = stored_task(Home(tmp_path), "t-1", about).settings.models
    assert models is not None
    assert [(one.name, one.weight) for one in models.code or ()] == [("a", 2.0), ("b", 1.0)]


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({"settings": {"reference": "t.py", "search": {"wheels": 3}}}, "search.wheels"),
        ({"settings": {"reference": "t.py", "sails": 2}}, "sails"),
        ({}, "settings"),
    ],
)
def test_a_run_of_a_version_with_other_settings_is_one_line(
    tmp_path: Path, about: dict[str, object], named: str
) -> None:
    whole = {"task": "t", "path": "t.yaml", "reference": "t.py", "source": "x = 1", **about}
    with pytest.raises(StoreError, match=rf"^t-1: expected settings .*\({named}\)"):
        stored_task(Home(tmp_path), "t-1", whole)
