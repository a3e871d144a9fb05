from __future__ import annotations

import pytest

from kb.config import shipped_docs
from kb.errors import ConfigError, TaskError
from kb.records.library import load_library
from search.judging.dryrun.architecture import (
    architecture_of,
    choose_architectures,
    known_architectures,
)


@pytest.fixture(scope="module")
def documents():
    return load_library(shipped_docs() / "targets")


def test_ten_architectures_are_described(documents):
    known = known_architectures(documents)
    nvidia = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
    amd = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32}
    assert set(known) == nvidia | set(amd)
    assert {a.name: a.warp for a in known.values() if a.backend == "hip"} == amd
    assert known["sm_120"].shared == 101376
    assert known["gfx950"].shared == 163840


def test_a_target_stands_for_its_architecture_and_the_suffix_is_optional(documents):
    h200, mi300x, plain = choose_architectures(["h200", "mi300x", "sm_90a"], documents)
    assert (h200.name, mi300x.name, plain.name) == ("sm_90", "gfx942", "sm_90")
    assert h200.capability == 90
    assert mi300x.capability == 0


def test_an_unknown_architecture_lists_the_known_ones(documents):
    with pytest.raises(ConfigError, match=r"sm_80.*gfx950"):
        choose_architectures(["sm_12345"], documents)


def test_a_processor_is_no_target_of_a_dry_run(documents):
    record = next(d.record for d in documents if d.name == "zen4")
    with pytest.raises(TaskError, match="no GPU"):
        architecture_of(record)
