from __future__ import annotations

from dataclasses import replace

from kb.app.queries import find_target
from kb.config import shipped_docs
from kb.records.patterns import Pattern, Recognised, When
from kb.records.schema import parse_record
from kb.records.types import Scope
from synth.query import PLANS, Need, Subject, build_inquiry

SUBJECT = Subject(
    target=find_target("h100"),
    language="triton",
    told="Row softmax of attention scores.",
    families=("softmax",),
    precision="half",
)


def recognised(name: str, share: float = 1.0, **fields: object) -> Recognised:
    pattern = Pattern(
        name=name,
        title=f"the {name}",
        when=When(any=("word: it",)),
        questions=(f"How is the {name} made fast?", f"What else helps the {name}?"),
        **fields,  # type: ignore[arg-type]
    )
    return Recognised(pattern=pattern, shown="it says so", share=share)


LONG_ROWS = recognised("long-rows", 0.5, see=("ideas/online-softmax",), families=("reduction",))
SPILLS = recognised("symptom-register-spills", area="symptom")
CRASH = recognised("crash", area="fault")


def test_each_pattern_asks_its_questions_and_its_first_one_names_its_records() -> None:
    inquiry = build_inquiry(SUBJECT, Need(stage="ideas", patterns=(LONG_ROWS,)))
    first, second = (one for one in inquiry.questions if "long-rows" in one.text)
    assert (first.see, second.see) == (("ideas/online-softmax",), ())
    assert "pattern long-rows: it says so" in first.reason
    assert inquiry.families == ("softmax", "reduction")
    assert inquiry.scope == Scope(
        vendor=("nvidia",),
        architecture=("sm_90",),
        language=("triton",),
        dtype=("float32", "float16", "bfloat16"),
        library=("allowed",),
    )


def test_records_that_call_the_library_are_not_for_a_task_that_forbids_it() -> None:
    path = shipped_docs() / "ideas" / "gpu-fuse-into-library-producer.md"
    scope = parse_record(path.read_text(encoding="utf-8"), path.name).record.scope.value()
    forbids = replace(SUBJECT, families=("matmul",), library="forbidden").scope
    assert scope.admits(replace(SUBJECT, families=("matmul",)).scope)
    assert scope.misses(forbids) == ("library",)


def test_what_costs_more_of_the_time_asks_louder() -> None:
    whole = replace(LONG_ROWS, share=1.0)
    asked = build_inquiry(SUBJECT, Need(stage="ideas", patterns=(LONG_ROWS, whole))).questions
    weights = [one.weight for one in asked if one.see]
    assert weights == sorted(weights)
    assert len(set(weights)) == 2


def test_a_family_names_records_by_its_share_and_asks_nothing() -> None:
    usual = recognised("usual", 0.25, area="family", see=("ideas/online-softmax",))
    usual = replace(usual, pattern=usual.pattern.model_copy(update={"questions": ()}))
    (one,) = (
        one
        for one in build_inquiry(SUBJECT, Need(stage="ideas", patterns=(usual,))).questions
        if one.see
    )
    assert one.text == ""
    assert one.weight == PLANS["ideas"].areas["family"] * 0.5


def test_what_usually_helps_counts_less_where_a_program_was_measured() -> None:
    usual = recognised("usual", area="overview")

    def weight(measured: bool) -> float:
        need = Need(stage="ideas", patterns=(usual,), measured=measured)
        return max(
            one.weight for one in build_inquiry(SUBJECT, need).questions if "usual" in one.text
        )

    assert weight(True) == weight(False) * PLANS["ideas"].later


def test_symptoms_ask_only_where_a_program_was_measured() -> None:
    guessed = Need(stage="ideas", patterns=(SPILLS,), symptoms=("register-spills",))
    measured = replace(guessed, measured=True)
    assert not any("spills" in one.text for one in build_inquiry(SUBJECT, guessed).questions)
    assert any("spills" in one.text for one in build_inquiry(SUBJECT, measured).questions)
    assert build_inquiry(SUBJECT, guessed).symptoms == ("register-spills",)


def test_a_repair_asks_by_the_fault_and_without_symptoms() -> None:
    need = Need(
        stage="repair",
        patterns=(LONG_ROWS, SPILLS, CRASH),
        symptoms=("register-spills",),
        measured=True,
        text="crashed: SIGSEGV in forward",
        tried=("online-softmax",),
    )
    inquiry = build_inquiry(SUBJECT, need)
    assert inquiry.symptoms == ()
    assert inquiry.tried == ()
    loudest = max(inquiry.questions, key=lambda one: one.weight)
    assert "crash" in loudest.text
    assert not any("spills" in one.text for one in inquiry.questions)
    areas = PLANS["repair"].areas
    assert areas["fault"] > 2 * max(areas["computation"], areas["setting"])


def test_a_draft_asks_by_its_idea_whose_record_comes_first() -> None:
    need = Need(stage="draft", text="Keep the row on the chip.", record="online-softmax")
    first = build_inquiry(SUBJECT, need).questions[0]
    assert first.text == "Keep the row on the chip."
    assert first.see == ("ideas/online-softmax",)
    assert first.anywhere


def test_without_patterns_the_modules_own_words_are_asked() -> None:
    inquiry = build_inquiry(SUBJECT, Need(stage="ideas"))
    assert [one.text for one in inquiry.questions] == [SUBJECT.told]


def test_every_stage_has_a_plan_with_room_for_what_it_asks() -> None:
    for stage, plan in PLANS.items():
        inquiry = build_inquiry(SUBJECT, Need(stage=stage, text="x" * 10))
        assert inquiry.limit == plan.limit
        assert set(dict(inquiry.kinds)) <= {"idea", "guide", "kernel", "lesson", "document"}


def test_what_is_for_float32_alone_does_not_apply_where_all_products_have_two_bytes() -> None:
    path = shipped_docs() / "ideas" / "split-float32-for-tensor-cores.md"
    scope = parse_record(path.read_text(encoding="utf-8"), path.name).record.scope.value()
    mixed = replace(SUBJECT, precision="strict", families=("matmul",), formats=("bfloat16",))
    assert "dtype" not in scope.misses(mixed.scope)
    assert "dtype" in scope.misses(replace(mixed, narrow=True).scope)
