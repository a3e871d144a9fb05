from __future__ import annotations

from dataclasses import replace

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import Document, Evidence
from kb.records.types import Hit, Passage, Scope
from kb.retrieval.multi_query import Inquiry
from kb.retrieval.multi_query.menu import TITLES, Menu, evidence_line, gained, range_line

LIBRARY = load_library(shipped_docs())
HERE = Inquiry(
    questions=(),
    scope=Scope(language=("cpp",), dtype=("float32",)),
    families=("softmax",),
    device="cpu",
    menu=True,
)


class Library:
    def documents(self, kind: str) -> list[Document]:
        return [one for one in LIBRARY if one.record.kind == kind]


def record(name: str) -> Document:
    return next(one for one in LIBRARY if one.name == name)


def quoted(name: str) -> Hit:
    path = record(name).path
    passage = Passage(id=name, document=path, section="", kind="idea", text="", tokens=1)
    return Hit(passage=passage, score=1.0, dense_rank=None, lexical_rank=None)


def test_titles_are_of_what_is_in_scope_and_not_quoted() -> None:
    names = [one.name for one in Menu(Library()).entries(HERE, (), [quoted("online-softmax")])]
    assert "cpu-softmax-online" in names
    assert "online-softmax" not in names
    assert "gpu-softmax-online" not in names
    assert "cpu-conv-direct" not in names
    assert len(names) <= TITLES


def test_what_is_near_comes_first() -> None:
    near = [record("reciprocal-once-per-row").path]
    first = Menu(Library()).entries(HERE, near, ())[0]
    assert first.name == "reciprocal-once-per-row"


def test_a_title_says_what_was_measured_on_such_devices_and_nothing_where_nothing_was() -> None:
    measured = record("cpu-rows-simd")
    assert "median of" in gained(measured, frozenset({"zen4", "zen5"}))
    assert gained(measured, frozenset({"h200"})) == ""
    assert gained(record("variance-from-squares"), frozenset({"zen4"})) == "usually loses"


def test_a_quoted_record_says_where_it_won_and_where_it_lost() -> None:
    gains = {"8x8": 0.5, "64x64": 1.2, "512x512": 3.0, "900x900": 2.0, "128x128": 1.1, "16x16": 0.9}
    evidence = [
        Evidence(task=task, target="h200", before=gain, after=1.0) for task, gain in gains.items()
    ]
    evidence.append(Evidence(task="9x9", target="h200", before=1.0, outcome="failed"))
    evidence[2] = evidence[2].model_copy(update={"note": "1.50x over torch.compile (1.4 to 1.6)"})
    assert evidence_line("h200", evidence) == (
        "Measured on h200, times the speed of eager: 512x512 3.00 (1.50 of torch.compile); "
        "900x900 2.00; 64x64 1.20; 1 more in between; 16x16 0.90; 8x8 0.50; 9x9 failed."
    )
    assert range_line("h200", evidence) == (
        "Measured on h200: 0.50 to 3.00 times the speed of eager (6)."
    )


def test_what_was_measured_on_the_device_is_told_before_what_was_on_others() -> None:
    menu, path = Menu(Library()), record("cpu-rows-simd").path
    known = {one.target for one in record("cpu-rows-simd").record.evidence}
    assert {"zen5", "x86-amx"} <= known
    for name in ("zen5", "x86-amx"):
        there = replace(HERE, target=name)
        assert menu.measured(path, there).startswith(f"Measured on {name}, ")
    assert menu.measured(path, HERE), "on another of its kind"
    assert menu.measured(path, replace(HERE, device="gpu")) == ""
    assert menu.measured(record("online-softmax").path, HERE) == ""
