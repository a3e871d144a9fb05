from __future__ import annotations

import pytest

from ingest.readers import ParsedFile
from ingest.scope.detect import find_scope, refine
from kb.records.types import Scope
from kb.store.tables import ScopeEvidence


def found(shown: str, title: str = "Notes", body: str = "", **more: object) -> ScopeEvidence:
    reading = ParsedFile(kind="document", title=title, body=body, sections=(), **more)  # type: ignore[arg-type]
    return find_scope(reading, shown)


def test_a_title_says_maker_and_language() -> None:
    scope = found("guide.pdf", "CUDA C++ Programming Guide")
    assert scope.scope == Scope(vendor=("nvidia",), language=("cuda",))
    assert "vendor nvidia: its title has CUDA" in scope.reasons


def test_a_path_says_as_much_as_a_title() -> None:
    scope = found("manuals/rocm/mi300x-tuning.html").scope
    assert (scope.vendor, scope.architecture) == (("amd",), ("gfx942",))


def test_the_platform_alone_is_no_language() -> None:
    # The hardware facts of a maker's manual serve every language of the maker.
    assert found("a.md", "CUDA hardware notes").scope.language == ()


def test_the_text_is_heard_only_where_it_speaks_of_one_maker() -> None:
    assert found("a.md", body="ROCm on AMD. " * 5).scope.vendor == ("amd",)
    assert found("a.md", body="ROCm on AMD. " * 5 + "CUDA. NVIDIA. " * 3).scope.vendor == ()
    assert found("a.md", body="CUDA once.").scope.vendor == ()


@pytest.mark.parametrize(
    ("name", "body", "vendor", "language"),
    [
        ("k/a.cu", "__global__ void f();", ("nvidia",), ("cuda",)),
        ("k/a.hip", "__global__ void f();", ("amd",), ("hip",)),
        ("k/a.cpp", "#include <hip/hip_runtime.h>", ("amd",), ("hip",)),
        ("k/a.cpp", "#include <vector>", (), ("cpp",)),
        ("k/a.h", "__device__ float f();", ("nvidia",), ("cuda",)),
        ("k/a.py", "import triton\nimport triton.language as tl", (), ("triton",)),
        ("k/a.py", "import cutlass\n", ("nvidia",), ("cute",)),
        ("k/a.py", "import torch\n", (), ()),
    ],
)
def test_a_source_tells_its_language(
    name: str, body: str, vendor: tuple[str, ...], language: tuple[str, ...]
) -> None:
    scope = found(name, "a", body).scope
    assert (scope.vendor, scope.language) == (vendor, language)


def test_a_maker_named_in_passing_is_no_subject() -> None:
    passing = "A word of something else stands here. " * 100 + "NVIDIA. " * 6
    assert found("a.md", body=passing).scope.vendor == ()
    assert found("a.py", body="x.cuda()\n" * 20).scope.vendor == ()


def test_a_function_that_asks_for_a_maker_is_not_about_it() -> None:
    assert refined(Scope(), "a.py > is_hip") is None
    assert refined(Scope(), "a.md > HIP") is not None


def test_words_inside_words_say_nothing() -> None:
    assert found("notes/chip-shipping.md", "Whipping up a membership").scope == Scope()


def test_front_matter_is_not_argued_with() -> None:
    scope = found("amd/rocm.md", "HIP", record={"kind": "guide"}, scope=Scope(vendor=("nvidia",)))
    assert scope.scope == Scope(vendor=("nvidia",))
    assert found("amd/rocm.md", "HIP", record={"kind": "guide"}).scope == Scope()


def refined(document: Scope, section: str, text: str = "") -> Scope | None:
    reading = ParsedFile(kind="document", title="T", body="", sections=())
    own = refine(reading, ScopeEvidence(scope=document), section, text)
    return None if own is None else own.scope


def test_a_heading_narrows_its_passages() -> None:
    cuda = Scope(vendor=("nvidia",))
    own = refined(cuda, "Guide > Appendix > Compute Capability 9.0 > Shared Memory")
    assert own == Scope(vendor=("nvidia",), architecture=("sm_90",))
    assert refined(cuda, "Guide > Thread Hierarchy") is None


def test_the_deepest_heading_that_speaks_counts() -> None:
    own = refined(Scope(), "Guide > Softmax > Matrix multiplication in it")
    assert own is not None
    assert own.operator == ("matmul",)


def test_a_heading_about_another_maker_compares() -> None:
    own = refined(Scope(vendor=("nvidia",)), "Guide > Porting to ROCm")
    assert own is not None
    assert own.vendor == ("nvidia", "amd")


def test_names_of_functions_are_headings_too() -> None:
    own = refined(Scope(language=("cuda",)), "a.cu > flash_attention_fwd")
    assert own == Scope(language=("cuda",), operator=("attention",))


def test_the_title_of_a_breadcrumb_is_not_a_heading() -> None:
    assert refined(Scope(), "Softmax > Usage") is None


def test_sections_that_were_joined_must_all_say_it() -> None:
    own = refined(
        Scope(),
        "T > Compute Capability 8.0, Hopper",
        "**Compute Capability 8.0**: a\n\n**Hopper**\n\n| t |",
    )
    assert own is not None
    assert own.architecture == ("sm_80", "sm_90")
    assert own.vendor == ()
    assert refined(Scope(), "T > Softmax, Notes", "**Softmax**: a\n\n**Notes**: b") is None
