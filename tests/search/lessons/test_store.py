from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb.errors import ConfigError, RecordError
from kb.records.schema import Claim, Evidence, LessonRecord, ScopeModel, parse_record
from kb.retrieval.lesson_confidence import stance, standing
from search.lessons.distill import Lesson, LessonVerdict
from search.lessons.measurements import KEPT
from search.lessons.store import LessonStore

DAY = date(2026, 11, 20)
GAINS = {"won": 1.5, "lost": 0.7, "even": 1.0, "failed": None}
OUTCOME = {"helps": "won", "wins": "won", "hurts": "lost", "fails": "failed", "even": "even"}


def evidence(run="r-1", outcome="won", node=0, at=DAY, gain=None):
    found = gain or GAINS[outcome]
    return Evidence(
        task="softmax",
        target="zen4",
        before=1e-3,
        after=1e-3 / found if found else None,
        run=run,
        node=node,
        at=at,
        outcome=outcome,
    )


def lesson(
    effect="helps", run="r-1", topic="t", *, idea="unroll", text="unroll the loop", gain=None
):
    return Lesson(
        name=f"{topic}-{effect}",
        record=LessonRecord(
            kind="lesson",
            title=f"{text}: {effect}",
            scope=ScopeModel(operator=("softmax",)),
            claim=Claim(effect=effect, topic=topic, subject=text, target="zen4"),
            evidence=(evidence(run, OUTCOME[effect], gain=gain),),
            idea=idea,
            plan={"made": run} if effect in ("helps", "wins") else None,
        ),
        body=f"# {text}: {effect}\n\nIn words of {run}.\n\n{text}\n",
    )


def holds(_):
    return None


@pytest.fixture
def book(tmp_path):
    return LessonStore(tmp_path, holds)


def fates(changes):
    return [change.fate for change in changes]


def one(book, name="t-helps"):
    return next(entry for entry in book.entries() if entry.name == name)


def test_a_lesson_is_a_readable_file_with_its_evidence(book):
    assert fates(book.learn([lesson()], [], DAY)) == ["new"]
    text = (book.active / "t-helps.md").read_text()
    document = parse_record(text, "t-helps.md")
    assert document.record.number == 1
    assert "In words of r-1." in document.body
    assert "- r-1 node 0 against the reference: won, 1.50x" in document.body
    assert not list(book.active.glob("*.tmp"))


def test_learning_a_run_again_changes_nothing(book):
    texts = []
    for _ in range(3):
        book.learn([lesson(), lesson("hurts", topic="u")], [], DAY)
        texts.append({path.name: path.read_text() for path in book.active.iterdir()})
    assert len(texts[0]) == 2
    assert texts[0] == texts[1] == texts[2]


def test_a_later_run_with_the_same_finding_confirms_it(book):
    book.learn([lesson(run="r-1")], [], DAY)
    assert fates(book.learn([lesson(run="r-2", gain=2.0)], [], DAY)) == ["confirmed"]
    found = one(book)
    assert [e.run for e in found.record.evidence] == ["r-1", "r-2"]
    assert found.record.plan == {"made": "r-2"}  # the clearer measurement speaks
    assert "In words of r-2." in found.words
    book.learn([lesson(run="r-3", gain=1.2)], [], DAY)
    assert one(book).record.plan == {"made": "r-2"}
    assert one(book).record.number == 1


def test_a_lesson_that_is_contradicted_sinks_and_at_last_makes_room_for_its_opposite(book):
    book.learn([lesson(run="r-1")], [], DAY)
    before = standing(one(book).record, DAY)
    assert fates(book.learn([lesson("hurts", run="r-2")], [], DAY)) == ["contradicted"]
    after = standing(one(book).record, DAY)
    assert after.trust < before.trust
    assert after.lift < before.lift
    assert after.expected < before.expected
    assert after.expected == 0
    changes = book.learn([lesson("hurts", run="r-3")], [], DAY)
    assert fates(changes) == ["contradicted", "retired", "new"]
    old, new = one(book, "t-helps"), one(book, "t-hurts")
    assert old.retired
    assert not (book.active / "t-helps.md").exists()
    assert (book.shelf / "t-helps.md").exists()
    assert old.record.retired.because == "contradicted 2 times, confirmed 1 times"
    assert [e.run for e in new.record.evidence] == ["r-2", "r-3"]
    assert new.record.number == 2
    # From here on the opposite is what later runs bear on.
    assert fates(book.learn([lesson("hurts", run="r-4")], [], DAY)) == ["confirmed"]
    assert len(one(book, "t-hurts").record.evidence) == 3


def test_failing_confirms_that_it_hurts(book):
    book.learn([lesson("hurts", run="r-1")], [], DAY)
    assert fates(book.learn([lesson("fails", run="r-2")], [], DAY)) == ["confirmed"]
    assert [entry.name for entry in book.entries()] == ["t-hurts"]


def test_no_clear_difference_neither_confirms_nor_contradicts_a_gain(book):
    book.learn([lesson()], [], DAY)
    assert fates(book.learn([lesson("even", run="r-2")], [], DAY)) == ["noted"]
    found = standing(one(book).record, DAY)
    assert (found.confirmed, found.contradicted) == (1, 0)


def test_one_clear_gain_outweighs_a_difference_that_could_not_be_seen(book):
    book.learn([lesson("even")], [], DAY)
    changes = book.learn([lesson("helps", run="r-2")], [], DAY)
    assert fates(changes) == ["contradicted", "retired", "new"]


def test_what_a_run_started_from_is_judged_by_it(book):
    book.learn([lesson("wins", topic="w")], [], DAY)
    for number, fate in ((2, ["contradicted"]), (3, ["contradicted", "retired"])):
        verdict = LessonVerdict(lesson="w-wins", evidence=evidence(f"r-{number}", "lost"))
        assert fates(book.learn([], [verdict], DAY)) == fate
    assert fates(book.learn([], [LessonVerdict(lesson="gone", evidence=evidence())], DAY)) == []
    for number, fate in ((4, ["confirmed", "revived"]), (5, ["confirmed"])):
        verdict = LessonVerdict(lesson="w-wins", evidence=evidence(f"r-{number}", "won"))
        assert fates(book.learn([], [verdict], DAY)) == fate
    assert not one(book, "w-wins").retired


@pytest.mark.parametrize("fate", ["lost", "won"])
def test_what_became_of_it_on_another_device_neither_contradicts_nor_confirms(book, fate):
    book.learn([lesson("wins", topic="w")], [], DAY)
    for run in ("r-2", "r-3"):
        elsewhere = evidence(run, fate).model_copy(update={"target": "zen5"})
        assert book.learn([], [LessonVerdict(lesson="w-wins", evidence=elsewhere)], DAY) == []
    found = one(book, "w-wins")
    assert not found.retired
    assert len(found.record.evidence) == 1


def test_a_winner_that_was_contradicted_makes_room_for_the_plan_that_won_next(book):
    book.learn([lesson("wins", topic="w", gain=9.0)], [], DAY)
    verdict = LessonVerdict(lesson="w-wins", evidence=evidence("r-2", "lost"))
    changes = book.learn([lesson("wins", topic="w", run="r-2", gain=2.0)], [verdict], DAY)
    assert fates(changes) == ["contradicted", "replaced"]
    record = one(book, "w-wins").record
    assert record.plan == {"made": "r-2"}
    assert [e.run for e in record.evidence] == ["r-2"]
    assert record.number == 1


def test_what_a_person_retired_stays_retired_until_a_person_restores_it(book):
    book.learn([lesson()], [], DAY)
    assert book.retire("1", "measured beside a noisy neighbour", DAY).retired
    assert fates(book.learn([lesson(run="r-2")], [], DAY)) == ["confirmed"]
    assert one(book).record.retired.because == "measured beside a noisy neighbour"
    assert not book.restore("t-helps").retired
    assert (book.active / "t-helps.md").exists()
    assert not (book.shelf / "t-helps.md").exists()


def test_what_is_no_longer_in_the_record_of_runs_holds_no_lesson(tmp_path):
    LessonStore(tmp_path, holds).learn([lesson(run=f"r-{n}") for n in (1, 2, 3)], [], DAY)
    book = LessonStore(tmp_path, lambda one: None if one.run == "r-9" else "its run was deleted")
    changes = book.learn([lesson("hurts", run="r-9")], [], DAY)
    assert fates(changes) == ["contradicted", "retired", "new"]
    assert one(book).record.retired.because == "contradicted 1 times, confirmed 0 times"


def test_what_is_not_in_the_record_of_runs_is_refused(tmp_path):
    book = LessonStore(tmp_path, lambda one: "no run r-2" if one.run == "r-2" else None)
    book.learn([lesson(run="r-1")], [], DAY)
    refused = book.learn(
        [lesson(run="r-2"), lesson(run="r-2", topic="u")],
        [LessonVerdict(lesson="t-helps", evidence=evidence("r-2", "lost"))],
        DAY,
    )
    assert [(change.fate, change.why) for change in refused] == [("refused", "no run r-2")] * 3
    assert [entry.name for entry in book.entries()] == ["t-helps"]
    with pytest.raises(RecordError, match="no run r-2"):
        book.confirm("t-helps", evidence("r-2"), DAY)


def test_a_file_by_hand_without_a_run_proves_nothing_until_a_run_confirms_it(book):
    book.active.mkdir(parents=True)
    front = "kind: lesson\ntitle: Unroll by four\nevidence:\n- {task: s, target: zen4, before: 2, after: 1}\n"
    (book.active / "mine.md").write_text(
        f"---\n{front}---\n\n# Unroll by four\n\nIt is said to help.\n"
    )
    assert standing(one(book, "mine").record, DAY).trust == 0.5
    assert standing(one(book, "mine").record, DAY).gain == 0
    assert fates(book.confirm("mine", evidence("r-1"), DAY)) == ["confirmed"]
    assert standing(one(book, "mine").record, DAY).trust > 0.6


def test_words_of_a_person_are_kept_and_the_evidence_is_not_theirs_to_write(book):
    book.learn([lesson()], [], DAY)
    listed = "Evidence:\n\n- r-9 node 0: won, 99x"
    book.edit("1", f"# Unroll by four, no more\n\nEight spills on this core.\n\n{listed}\n")
    book.learn([lesson(run="r-2", gain=3.0)], [], DAY)
    found = one(book)
    assert found.record.title == "Unroll by four, no more"
    assert "Eight spills" in found.words
    assert "99x" not in (book.active / "t-helps.md").read_text()
    assert found.record.plan == {"made": "r-2"}
    with pytest.raises(ConfigError, match="retire it"):
        book.edit("1", " ")


def test_evidence_stands_with_the_words_and_before_the_source(book):
    body = "# Won\n\nIt won by far.\n\n## Source\n\n```python\nx = 1\n\n- y\n```\n"
    book.learn([replace(lesson("wins", topic="w"), body=body)], [], DAY)
    text = (book.active / "w-wins.md").read_text()
    assert text.index("It won by far") < text.index("r-1 node 0") < text.index("## Source")
    assert one(book, "w-wins").words == body
    book.learn([], [LessonVerdict(lesson="w-wins", evidence=evidence("r-2", "won"))], DAY)
    assert one(book, "w-wins").words == body
    assert (book.active / "w-wins.md").read_text().count("Evidence:") == 1


def test_old_evidence_is_counted_when_it_is_no_longer_listed(book):
    for number in range(KEPT + 5):
        book.learn([lesson(run=f"r-{number}")], [], DAY)
    book.learn([lesson("even", run="r-even")], [], DAY)
    record = one(book).record
    assert len(record.evidence) == KEPT
    assert record.earlier.confirmed == 6
    assert standing(record, DAY).confirmed == KEPT + 5
    assert "6 older measurements are only counted" in (book.active / "t-helps.md").read_text()


def test_the_same_idea_in_other_words_is_one_lesson(tmp_path):
    def alike(text, others):
        return next(
            (n for n, other in enumerate(others) if "online" in text and "online" in other), None
        )

    book = LessonStore(tmp_path, holds, alike)
    book.learn([lesson(topic="a", idea=None, text="use an online maximum")], [], DAY)
    other = lesson(topic="b", idea=None, text="online softmax in a pass", run="r-2")
    assert fates(book.learn([other], [], DAY)) == ["confirmed"]
    third = lesson(topic="c", idea=None, text="prefetch the next row", run="r-3")
    assert fates(book.learn([third], [], DAY)) == ["new"]
    elsewhere = replace(other, record=other.record.model_copy(update={"scope": ScopeModel()}))
    topic = elsewhere.record.claim.model_copy(update={"topic": "d"})
    elsewhere = replace(
        elsewhere, name="d", record=elsewhere.record.model_copy(update={"claim": topic})
    )
    assert fates(book.learn([elsewhere], [], DAY)) == ["new"]  # another place, another lesson


def test_a_lesson_is_found_by_its_number_its_name_or_its_beginning(book):
    book.learn([lesson(topic="alpha"), lesson(topic="beta")], [], DAY)
    assert (
        book.find("2").name == book.find("beta-helps").name == book.find("be").name == "beta-helps"
    )
    with pytest.raises(ConfigError, match="no lesson for '7': known are 1, 2"):
        book.find("7")
    book.learn([lesson(topic="beta2")], [], DAY)
    with pytest.raises(ConfigError, match="2 lessons for 'beta': known are 2, 3"):
        book.find("beta")


def test_a_broken_file_is_named_and_stops_nothing(book):
    book.learn([lesson()], [], DAY)
    (book.active / "bad.md").write_text("---\nkind: lesson\n---\n")
    (book.active / "binary.md").write_bytes(b"\xff\xfe\x00")
    assert [entry.name for entry in book.entries()] == ["t-helps"]
    assert len(book.problems) == 2
    assert book.problems[0].startswith("bad.md is no lesson: ")


def test_two_runs_that_end_at_once_lose_nothing(tmp_path):
    def end(number):
        mine = LessonStore(tmp_path, holds)
        mine.learn([lesson(run=f"r-{number}"), lesson(topic=f"own{number}")], [], DAY)

    threads = [threading.Thread(target=end, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    book = LessonStore(tmp_path, holds)
    entries = book.entries()
    assert len(entries) == 7
    assert sorted(entry.record.number for entry in entries) == list(range(1, 8))
    assert len(one(book).record.evidence) == 6


OUTCOMES = st.sampled_from(["won", "lost", "failed", "even"])


def record(effect, outcomes, days=None):
    ages = days or [0] * len(outcomes)
    listed = tuple(
        evidence(f"r-{n}", outcome, at=DAY - timedelta(days=age))
        for n, (outcome, age) in enumerate(zip(outcomes, ages, strict=True))
    )
    return LessonRecord(
        kind="lesson", title="some lesson", claim=Claim(effect=effect, subject="s"), evidence=listed
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["wins", "helps", "even", "hurts", "fails"]),
    st.lists(OUTCOMES, min_size=1, max_size=12),
    OUTCOMES,
)
def test_more_of_what_confirms_raises_trust_and_more_of_what_contradicts_lowers_it(
    effect, outcomes, more
):
    before = standing(record(effect, outcomes), DAY)
    after = standing(record(effect, [*outcomes, more]), DAY)
    side = stance(effect, evidence(outcome=more))
    assert 0 < before.trust < 1
    if side > 0:
        assert after.trust > before.trust
    elif side < 0:
        assert after.trust < before.trust
    else:
        assert after.trust == before.trust
    assert before.outweighed == (before.trust < 0.5)


@settings(max_examples=60, deadline=None)
@given(st.lists(OUTCOMES, min_size=1, max_size=12), st.integers(1, 2000))
def test_old_evidence_weighs_less_and_pulls_neither_way(outcomes, days):
    fresh = standing(record("helps", outcomes), DAY)
    old = standing(record("helps", outcomes, [days] * len(outcomes)), DAY)
    assert abs(old.gain) <= abs(fresh.gain) + 1e-12
    assert abs(old.lift) <= abs(fresh.lift) + 1e-12
    assert (old.confirmed, old.contradicted) == (fresh.confirmed, fresh.contradicted)


def test_an_estimate_is_shrunken_and_one_measurement_is_bounded():
    once = standing(record("helps", ["won"]), DAY).gain
    often = standing(record("helps", ["won"] * 10), DAY).gain
    assert 0 < once < often < 0.4055  # log 1.5
    wild = record("helps", ["won"]).model_copy(update={"evidence": (evidence(gain=500.0),)})
    assert standing(wild, DAY).gain == pytest.approx(0.693, abs=1e-3)
