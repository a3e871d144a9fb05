from __future__ import annotations

from pathlib import Path

from kb.config import Home
from kb.database import open_engine
from kb.records.patterns import Pattern, When, load_patterns
from search.runs.snapshot import RunSnapshot


def pattern(question: str) -> Pattern:
    return Pattern(
        name="own", title="one of my own", when=When(any=("word: own",)), questions=(question,)
    )


def test_a_run_asks_by_the_patterns_that_it_began_with(tmp_path: Path) -> None:
    engine = open_engine(Home(tmp_path).make())
    first, edited = (pattern("What helped at first?"),), (pattern("What helps by now?"),)
    assert RunSnapshot(engine, "run").patterns(lambda: first) == first
    assert RunSnapshot(engine, "run").patterns(lambda: edited) == first
    assert RunSnapshot(engine, "another").patterns(lambda: edited) == edited


def test_what_only_looks_at_a_run_keeps_no_patterns(tmp_path: Path) -> None:
    engine = open_engine(Home(tmp_path).make())
    first, edited = (pattern("What helped at first?"),), (pattern("What helps by now?"),)
    assert RunSnapshot(engine, "run", writes=False).patterns(lambda: first) == first
    assert RunSnapshot(engine, "run").patterns(lambda: edited) == edited


def test_every_shipped_pattern_comes_back_as_it_was(tmp_path: Path) -> None:
    engine = open_engine(Home(tmp_path).make())
    RunSnapshot(engine, "run").patterns(load_patterns)
    assert RunSnapshot(engine, "run").patterns(tuple) == load_patterns()
