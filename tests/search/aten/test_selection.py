"""The suite's operators are examined in processes that may end."""

import os
import signal
import sys
from pathlib import Path

import pytest

from search.aten.programs import Unwritable
from search.aten.selection import _Examiner, select_operators


@pytest.mark.slow
def test_operators_are_chosen_by_samples_or_refused_with_a_reason() -> None:
    told: list[str] = []
    only = ["add", "nn.functional.gelu", "nonzero", "empty_like", "nn.functional.softshrink"]
    found = select_operators(told.append, number=2, only=only)
    assert [one.name for one in found.chosen] == ["add", "nn.functional.gelu"]
    assert all(one.samples == len([s for s in one.asked if not s.awkward]) for one in found.chosen)
    refused = dict(found.refused)
    assert set(refused) == {"nonzero", "empty_like", "nn.functional.softshrink"}
    assert refused["nn.functional.softshrink"] == "beyond the first 2"
    assert "memory that nobody has written" in refused["empty_like"]


@pytest.mark.slow
def test_an_operator_that_is_not_done_is_given_up_and_the_next_is_examined() -> None:
    examiner = _Examiner(60.0)
    try:
        places = {name: place for place, name in enumerate(examiner.names())}
        examiner._seconds = 1e-4
        with pytest.raises(Unwritable, match=r"it was not done after 0\.0001 s"):
            examiner.examine(places["svd"])
        examiner._seconds = 60.0
        assert examiner.examine(places["exp"]).name == "exp"
        assert examiner._process is not None
        os.kill(examiner._process.pid, signal.SIGKILL)
        assert examiner.examine(places["add"]).name == "add", "another process is asked"
    finally:
        examiner.close()


def test_a_process_that_used_half_of_its_memory_ends_and_twice_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The limit is that of any process here, so that none answers."""
    (tmp_path / "sitecustomize.py").write_text(
        "import resource\n"
        "resource.getrusage = lambda who: type('Usage', (), {'ru_maxrss': 9 << 20})()\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    found = select_operators(only=["exp"])
    assert found.chosen == ()
    assert found.refused == (("exp", "it ended its process, which has 16 GiB of memory"),)
