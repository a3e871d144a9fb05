from __future__ import annotations

from kb.cli.questions import find_target
from kb.types import Scope
from synth.question import KINDS, Need, Subject, build_query

SUBJECT = Subject(
    source="class Model(nn.Module):\n    x = F.softmax(nn.Parameter(y))\ndef get_inputs():\n    torch.rand(3)",
    target=find_target("h100"),
    language="triton",
    families=("softmax",),
    precision="half",
)


def need(purpose: str, text: str = "") -> Need:
    return Need(
        purpose=purpose,  # type: ignore[arg-type]
        symptoms=("memory-bound", "several-passes"),
        tokens=900,
        encoding="o200k_base",
        text=text,
    )


def test_ideas_are_asked_for_by_operators_device_language_and_diagnosis_through_the_index() -> None:
    query = build_query(SUBJECT, need("ideas"))
    assert query.text == ("make softmax nvidia sm_90 triton faster: memory-bound, several-passes")
    assert query.scope == Scope(
        vendor=("nvidia",),
        architecture=("sm_90",),
        language=("triton",),
        operator=("softmax",),
        dtype=("float32", "float16", "bfloat16"),
    )
    assert query.symptoms == ("memory-bound", "several-passes")
    assert (query.kinds, query.hops) == (KINDS, 2)
    assert (query.token_budget, query.encoding) == (900, "o200k_base")


def test_who_writes_or_mends_asks_for_what_the_code_is_about() -> None:
    draft = build_query(SUBJECT, need("draft", "Keep the row on the chip."))
    assert draft.text == "Keep the row on the chip. triton: memory-bound, several-passes"
    assert draft.hops == 0
    assert build_query(SUBJECT, need("repair", "tl.arange is no power of two")).hops == 0


def test_a_reference_without_a_diagnosis_is_asked_about_all_the_same() -> None:
    plain = Need(purpose="ideas", symptoms=(), tokens=1, encoding="cl100k_base")
    assert build_query(SUBJECT, plain).text == "make softmax nvidia sm_90 triton faster"
