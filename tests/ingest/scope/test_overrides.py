from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ingest.pipeline import IngestOptions, ingest
from ingest.scope.overrides import load_rules, sync_rules
from kb.config import Home
from kb.errors import ConfigError
from kb.records.types import Scope
from kb.store.documents import Store

GUIDE = """# CUDA C++ Guide

## Banks

Shared memory has 32 banks. {more}

## Compute Capability 9.0

Clusters of blocks. {more}
""".format(more="Words that make a section large enough to be a passage of its own. " * 4)


def write_rules(home: Path, text: str) -> Home:
    (home / "scopes.yaml").write_text(text)
    return Home(home)


def scopes(store: Store) -> dict[str, Scope]:
    pending = list(store.pending("e"))
    store.put_vectors("e", pending, np.ones((len(pending), 2), np.float32))
    shown = [shown for _, shown in store.manifest().values()]
    found = [one for passages in store.pages(shown).values() for one in passages]
    return {one.section.split(" > ")[-1]: one.scope for one in found}


@pytest.mark.slow
def test_corrections_are_applied_without_embedding_and_survive_reading_again(
    docs: Path, store: Store
) -> None:
    (docs / "guide.md").write_text(GUIDE)
    ingest([docs], store)
    before = scopes(store)
    cuda = Scope(vendor=("nvidia",), language=("cuda",))
    assert before == {
        "Banks": cuda,
        "Compute Capability 9.0": Scope(
            vendor=("nvidia",), language=("cuda",), architecture=("sm_90",)
        ),
    }
    home = write_rules(
        docs.parent / "home",
        "- {document: 'docs/*.md', scope: {language: []}}\n"
        "- {document: guide.md, section: banks, scope: {vendor: [amd]}}\n",
    )
    generation = store.generation()
    assert sync_rules(store, load_rules(home)) == 2
    assert store.generation() != generation
    assert store.pending("e") == {}
    corrected = {
        "Banks": Scope(vendor=("amd",)),
        "Compute Capability 9.0": Scope(vendor=("nvidia",), architecture=("sm_90",)),
    }
    assert scopes(store) == corrected
    assert sync_rules(store, load_rules(home)) == 0

    (docs / "guide.md").write_text(GUIDE + "\nAnd more of them.\n")
    ingest([docs], store, terms=IngestOptions(rules=load_rules(home)))
    assert scopes(store) == corrected

    (home.root / "scopes.yaml").unlink()
    assert sync_rules(store, load_rules(home)) == 2
    assert scopes(store) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- {document: a, scope: {vendor: [nvida]}}", "entry 1: unknown vendor 'nvida'.*'nvidia'"),
        ("- {document: a, scope: {operator: [magic]}}", "entry 1: scope.operator"),
        ("- {documnet: a, scope: {}}", "entry 1: "),
        ("vendor: nvidia", "expected - {document"),
        ("- [", "expected YAML"),
    ],
)
def test_a_correction_that_cannot_be_used_is_one_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        load_rules(write_rules(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_no_file_is_no_correction(tmp_path: Path) -> None:
    assert load_rules(Home(tmp_path)).corrections == ()
