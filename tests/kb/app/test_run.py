from __future__ import annotations

import pytest
from scripted import REFERENCE

from kb.app.resume import stored_task
from kb.app.run import evolve
from kb.config import Home
from kb.database import open_engine
from kb.progress import silent
from search.runs.storage import Storage
from search.task import load_task


def test_a_run_that_is_interrupted_while_it_is_put_together_can_be_gone_on_with(
    tmp_path, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    reference = tmp_path / "ref.py"
    reference.write_text(REFERENCE)
    home, begun = Home(tmp_path / "home").make(), []
    monkeypatch.setattr("kb.app.run.build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evolve(home, load_task(reference), silent, lambda *_: None, begun.append)
    (run,) = begun
    row = Storage(open_engine(home)).run(run)
    assert row.status == "interrupted"
    reference.unlink()
    assert stored_task(home, run, row.about).source == REFERENCE
