from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from machines import TWO_CORES

from kb.records.schema import Cache
from search.attempt import Diagnosis, Draft, Idea
from search.graph import Graph, Node, Slot, Step
from search.lessons.distill import MOST, lessons, regime_of, verdicts
from search.lessons.setting import Setting
from search.outcome import Checked, Passed, Ratio, Wrong
from search.patterns.traits.rows import Rows

SETTING = Setting(
    run="softmax-1",
    task="softmax",
    identity="0123456789abcdef",
    target="zen4",
    architecture="x86-64-v4",
    language="cpp",
    families=("softmax",),
    symptoms=("memory-bound",),
    shapes="64x1024 -> 64x1024",
    eager_seconds=2e-3,
    regime="fits l3, middling rows",
    at=date(2026, 11, 1),
    diagnose=lambda attempt: Diagnosis(symptoms=("compute-bound",), lines=()),
)


def passed(ratio: float, width: float = 0.02) -> Passed:
    interval = Ratio(ratio=ratio, low=ratio * (1 - width), high=ratio * (1 + width))
    return Passed(
        seconds=2e-3 / ratio,
        samples=50,
        speedup={"eager": interval},
        max_error=1e-7,
        allowed_error=1e-6,
    )


def plan(recipe, **knobs):
    return {
        "library": [],
        "segments": {
            "rows:out": {"recipe": recipe, "knobs": knobs, "pattern": "rows", "dims": {"depth": 8}}
        },
    }


def node(number, parent, idea, outcome, round_=0, *, made=None, record="", lesson=None):
    about = {"plan": {}, "focus": "rows:out", **({"lesson": lesson} if lesson else {})}
    return Node(
        number=number,
        step=Step(Slot(round_, 0), number, 0),
        parent=parent,
        idea=Idea(
            title=idea,
            text=f"{idea} in words",
            category="memory access",
            record=record or f"r-{idea}",
            plan=about if made is not None or lesson else {},
        ),
        draft=Draft(source=f"# {idea} {number}\n", plan=made or {}),
        outcome=outcome,
    )


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    graph.add(node(0, None, "three passes", passed(1.2)))
    graph.add(node(1, None, "scalar loop", passed(0.6)))
    graph.add(node(2, None, "guesswork", Wrong(reason="every element differs")))
    graph.add(node(3, 0, "online maximum", passed(1.5), round_=1))
    graph.add(node(4, 0, "prefetch", passed(1.21), round_=1))
    return graph


def by_idea(found):
    return {(one.record.idea, one.record.claim.effect): one for one in found}


def test_the_winner_is_kept_with_its_source_path_and_evidence(graph):
    found = by_idea(lessons(graph, {3: passed(1.4)}, SETTING))
    won = found["r-online maximum", "wins"]
    (evidence,) = won.record.evidence
    assert evidence.before == pytest.approx(2e-3)
    assert evidence.after == pytest.approx(2e-3 / 1.4)
    assert (evidence.run, evidence.node, evidence.at) == ("softmax-1", 3, date(2026, 11, 1))
    assert "three passes (1.20x over eager) -> online maximum (1.50x over eager)" in won.body
    assert "kb node softmax-1 3" in won.body
    assert "# online maximum 3" in won.body  # a model's source is kept
    assert won.name.endswith("-won")


def test_a_source_that_recipes_made_is_told_by_its_choices():
    graph = Graph()
    graph.add(node(0, None, "rows", passed(1.2), made=plan("cpu-rows", unroll=1, block=32)))
    won = by_idea(lessons(graph, {}, SETTING))["r-rows", "wins"]
    assert "- Choice: rows by the recipe cpu-rows, block=32, unroll=1." in won.body
    assert "```" not in won.body
    assert won.record.plan == plan("cpu-rows", unroll=1, block=32)


def test_a_step_says_what_it_gained_over_its_parent_with_an_interval(graph):
    found = by_idea(lessons(graph, {}, SETTING))
    step = found["r-online maximum", "helps"]
    (evidence,) = step.record.evidence
    assert evidence.gain == pytest.approx(1.5 / 1.2)
    assert (evidence.low, evidence.high) == pytest.approx((1.47 / 1.224, 1.53 / 1.176))
    assert evidence.parent == 0
    assert step.record.claim.basis == "parent"
    assert step.record.claim.before == ("compute-bound",)
    assert "1.25x over node 0 (1.20 to 1.30)" in step.body


def test_what_lost_what_failed_and_what_came_close_are_kept_as_such(graph):
    found = by_idea(lessons(graph, {3: passed(1.4)}, SETTING))
    assert found["r-scalar loop", "hurts"].record.evidence[0].outcome == "lost"
    assert "1.67 times the time of eager" in found["r-scalar loop", "hurts"].record.title
    failed = found["r-guesswork", "fails"].record.evidence[0]
    assert failed.after is None
    assert "every element differs" in failed.note
    assert "every element differs" in found["r-guesswork", "fails"].body
    close = found["r-prefetch", "even"].record
    assert close.evidence[0].outcome == "even"
    assert "no clear difference" in close.title


def test_what_was_measured_too_vaguely_to_tell_a_draw_teaches_nothing():
    graph = Graph()
    graph.add(node(0, None, "beside a build", passed(1.2, width=0.6)))
    graph.add(node(1, None, "draw", passed(1.01, width=0.05)))
    assert [one.record.idea for one in lessons(graph, {}, SETTING)] == ["r-draw"]


def test_turned_knobs_are_one_lesson_that_names_those_that_gained():
    graph = Graph()
    graph.add(node(0, None, "rows", passed(1.2), made=plan("cpu-rows", unroll=1, block=32)))
    for number, unroll, ratio in ((1, 2, 1.25), (2, 4, 1.6), (3, 8, 0.9)):
        made = plan("cpu-rows", unroll=unroll, block=32)
        graph.add(node(number, 0, "Tune further: rows", passed(ratio), 1, made=made, record="rows"))
    swap = plan("cpu-two-rows", unroll=1, block=32)
    graph.add(node(4, 0, "two rows", passed(0.6), 1, made=swap, record="two"))
    found = by_idea(lessons(graph, {}, SETTING))
    tuned = found["rows", "helps"].record
    assert tuned.claim.change == ("unroll 1 -> 4",)
    assert tuned.title.startswith("rows, unroll 1 -> 4: 1.33x over what it changed on softmax")
    assert tuned.claim.pattern == "rows"
    assert tuned.plan == plan("cpu-rows", unroll=4, block=32)
    assert found["two", "hurts"].record.claim.change == ("recipe cpu-rows -> cpu-two-rows",)
    assert found["two", "hurts"].record.plan is None


def test_a_repair_is_compared_with_what_the_failed_one_started_from():
    graph = Graph()
    graph.add(node(0, None, "start", passed(1.5)))
    graph.add(node(1, 0, "wide", Wrong(reason="off by one"), 1))
    graph.add(node(2, 1, "wide", passed(3.0), 1))
    (evidence,) = by_idea(lessons(graph, {}, SETTING))["r-wide", "helps"].record.evidence
    assert (evidence.parent, evidence.gain) == (0, pytest.approx(2.0))


def test_a_winner_whose_interval_reaches_one_is_no_winner(graph):
    found = lessons(graph, {3: passed(1.01, width=0.04)}, SETTING)
    assert not any(lesson.name.endswith("-won") for lesson in found)


def test_a_run_teaches_the_clearest_of_what_it_found():
    graph = Graph()
    for number in range(40):
        graph.add(node(number, None, f"idea {number}", passed(1 + number / 10)))
    found = lessons(graph, {}, SETTING)
    assert len(found) == MOST + 1
    told = {one.record.idea for one in found if one.record.claim.effect != "wins"}
    assert told == {f"r-idea {number}" for number in range(40 - MOST, 40)}


def test_a_dry_run_teaches_nothing(graph):
    graph.add(node(5, 0, "unrolled", Checked(kernels=(), max_error=None, allowed_error=None), 2))
    assert lessons(graph, {}, SETTING) == []


def test_the_same_trial_on_a_neighbouring_shape_is_the_same_topic_and_another_regime_is_not(graph):
    names = {}
    for regime, task in (("a", "softmax"), ("a", "small"), ("b", "softmax")):
        setting = replace(SETTING, regime=regime, task=task, run=f"{task}-9")
        found = by_idea(lessons(graph, {}, setting))
        names[regime, task] = found["r-scalar loop", "hurts"].record.claim.topic
    assert names["a", "softmax"] == names["a", "small"] != names["b", "softmax"]


def cited(idea):
    return (idea.plan["lesson"],) if "lesson" in idea.plan else ()


@pytest.mark.parametrize(
    ("mine", "outcome"),
    [
        (passed(2.9), "won"),  # within reach of the best
        (passed(1.2), "lost"),  # faster than eager, and far behind
        (passed(0.5), "lost"),
        (Wrong(reason="no"), "failed"),
        (passed(1.01, width=0.05), "lost"),
    ],
)
def test_a_lesson_is_judged_by_what_came_of_starting_from_it(mine, outcome):
    graph = Graph()
    graph.add(node(0, None, "from lesson", mine, lesson="old-won"))
    graph.add(node(1, None, "other", passed(3.0)))
    (verdict,) = verdicts(graph, {}, SETTING, cited)
    assert verdict.lesson == "old-won"
    assert verdict.evidence.outcome == outcome
    assert verdict.evidence.node == 0


def test_a_lesson_that_led_to_the_winner_won_however_far_the_winner_went_on():
    graph = Graph()
    graph.add(node(0, None, "from lesson", passed(1.2), lesson="old-won"))
    graph.add(node(1, 0, "more", passed(3.0), 1))
    (verdict,) = verdicts(graph, {}, SETTING, cited)
    assert verdict.evidence.outcome == "won"


@pytest.mark.parametrize(
    ("own", "outcome"),
    [(passed(1.2), "won"), (passed(0.7), "lost"), (Wrong(reason="no"), "failed")],
)
def test_a_lesson_whose_very_plan_lost_is_contradicted_whatever_other_settings_did(own, outcome):
    graph = Graph()
    plans = [plan("cpu-rows", unroll=unroll, block=32) for unroll in (1, 4)]
    for number, (made, came) in enumerate(zip(plans, (own, passed(3.0)), strict=True)):
        one = node(number, None, "from lesson", came, made=made, lesson="old-won")
        graph.add(replace(one, idea=replace(one.idea, plan={**one.idea.plan, "plan": plans[0]})))
    (verdict,) = verdicts(graph, {}, SETTING, cited)
    assert verdict.evidence.outcome == outcome
    assert verdict.evidence.node == (1 if outcome == "won" else 0)


def test_a_regime_is_the_cache_that_holds_the_data_and_the_length_of_rows():
    caches = {
        "l2": Cache(bytes=2**20, shared_by="core"),
        "l1": Cache(bytes=2**15, shared_by="core"),
    }
    target = TWO_CORES.model_copy(update={"caches": caches})
    assert regime_of(1000, target, [(8, 16)]) == "fits l1, short rows"
    assert regime_of(2**18, target, [(3, 3), (64, 1024)]) == "fits l2, middling rows"
    assert regime_of(2**21, target, [(1, 50257)]) == "larger than the caches, long rows"
    assert regime_of(1000, target, []) == "fits l1"
    assert regime_of(1000, target, [], "half") == "fits l1, precision half"
    columns = Rows(length=8192, columns=True)
    assert regime_of(1000, target, [(8192, 16)], rows=columns) == "fits l1, long columns"


def test_a_task_whose_answer_is_always_the_same_teaches_nothing(graph):
    constant = Graph()
    for one in graph.nodes:
        outcome = one.outcome
        if isinstance(outcome, Passed):
            outcome = replace(outcome, degenerate=True)
        constant.add(replace(one, outcome=outcome))
    assert lessons(graph, {}, SETTING)
    assert lessons(constant, {}, SETTING) == []
    assert verdicts(constant, {}, SETTING, lambda idea: ["a lesson"]) == []
