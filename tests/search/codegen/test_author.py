"""The author without a model: what it proposes, in which order, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machines import TWO_CORES
from recipe_bench import EXAMPLES, Bench, Shelf, reference

from kb.app.queries import find_target
from kb.errors import NoRecipe
from kb.records.schema import Claim, Document, Evidence, LessonRecord, ScopeModel, TargetRecord
from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.authors.recipes import Recipes
from search.codegen.applicability import make_shop, suiting
from search.codegen.library import RecipeCard
from search.codegen.next_recipes import from_lessons, proposals, start, whole_program
from search.codegen.plan import Composer
from search.outcome import Crashed, Outcome, Passed, Ratio
from search.task import Task, TaskFile

BLOCK = reference(
    "x = F.relu(self.c(a))\nreturn torch.softmax(F.gelu(x) * 0.5, -1)",
    "torch.randn(1, 3, 13, 13)",
    init="self.c = nn.Conv2d(3, 7, 3)",
)


def task(source: str, **settings: Any) -> Task:
    path = Path("model.py")
    settings = {"reference": "model.py", **settings}
    return Task(name="t", path=path, reference=path, source=source, settings=TaskFile(**settings))


def passed(ratio: float) -> Passed:
    speedup = {"eager": Ratio(ratio=ratio, low=ratio, high=ratio)}
    return Passed(seconds=1 / ratio, samples=9, speedup=speedup, max_error=0, allowed_error=1)


class Search:
    """A search with made-up outcomes: what an author is asked, in order."""

    def __init__(self, author: Recipes) -> None:
        self.author = author
        self.attempts: list[Attempt] = []
        self.parent: Attempt | None = None

    def moment(self, round: int, seed: int) -> Moment:
        diagnosis = Diagnosis(symptoms=("memory-bound",), lines=())
        return Moment(
            round=round,
            seed=seed,
            parent=self.parent,
            history=tuple(self.attempts),
            diagnosis=diagnosis,
        )

    def add(self, idea: Idea, draft: Draft, outcome: Outcome, round: int, branch: int) -> Attempt:
        attempt = Attempt(
            number=len(self.attempts) + 1,
            parent=self.parent.number if self.parent else None,
            round=round,
            branch=branch,
            idea=idea,
            draft=draft,
            outcome=outcome,
        )
        self.attempts.append(attempt)
        return attempt

    def run(self, rounds: int, ideas: int = 4, branches: int = 3) -> list[str]:
        told = []
        for round in range(rounds):
            for idea in self.author.ideas(self.moment(round, round), ideas):
                told.append(idea.title)
                mine: list[Attempt] = []
                for branch in range(branches):
                    moment = self.moment(round, 100 * round + branch)
                    draft = self.author.draft(moment, idea, branch, tuple(mine))
                    if draft is None:
                        break
                    # A made-up but reproducible ranking.
                    ratio = 1 + (sum(draft.source.encode()) % 97) / 50
                    mine.append(self.add(idea, draft, passed(ratio), round, branch))
            self.parent = max(self.attempts, key=lambda attempt: attempt.speedup)
        return told


@pytest.fixture
def shelf(documents: list[Document]) -> Shelf:
    return Shelf(documents)


def make(source: str, shelf: Shelf, target: TargetRecord, **settings: Any) -> Recipes:
    return Recipes(task(source, **settings), target, Bench(source, {}).graph, shelf)


@pytest.mark.slow
def test_no_source_is_proposed_twice_and_each_says_its_passage(
    shelf: Shelf, target: TargetRecord
) -> None:
    search = Search(make(BLOCK, shelf, target))
    titles = search.run(3)
    sources = [attempt.draft.source for attempt in search.attempts]
    assert len(sources) > 15
    assert len(set(sources)) == len(sources)
    assert len(titles) > 6
    for attempt in search.attempts:
        json.dumps(attempt.draft.plan)
        json.dumps(attempt.idea.plan)
    retrieved = [a for a in search.attempts if a.idea.passages]
    assert retrieved
    assert all(a.idea.passages == (f"passage of {a.idea.record}",) for a in retrieved)
    assert shelf.queries[0].symptoms == ("memory-bound",)
    assert "convolution" in shelf.queries[0].scope.operator


@pytest.mark.slow
def test_a_resumed_search_asks_the_same(shelf: Shelf, target: TargetRecord) -> None:
    first, second = (Search(make(BLOCK, shelf, target)) for _ in range(2))
    first.run(2)
    # The second is a new author at every step: it may know nothing but the record.
    for round in range(2):
        second.author = make(BLOCK, shelf, target)
        for idea in second.author.ideas(second.moment(round, round), 4):
            mine: list[Attempt] = []
            for branch in range(3):
                author = make(BLOCK, shelf, target)
                moment = second.moment(round, 100 * round + branch)
                draft = author.draft(moment, idea, branch, tuple(mine))
                if draft is None:
                    break
                ratio = 1 + (sum(draft.source.encode()) % 97) / 50
                mine.append(second.add(idea, draft, passed(ratio), round, branch))
        second.parent = max(second.attempts, key=lambda attempt: attempt.speedup)
    assert [a.draft for a in first.attempts] == [a.draft for a in second.attempts]
    assert [a.idea for a in first.attempts] == [a.idea for a in second.attempts]


def test_the_library_may_do_the_product_or_a_recipe(shelf: Shelf, target: TargetRecord) -> None:
    search = Search(make(BLOCK, shelf, target))
    search.run(2, ideas=12, branches=1)
    libraries = {tuple(attempt.draft.plan["library"]) for attempt in search.attempts}
    assert libraries == {(), ("conv2d",)}


def test_with_the_library_forbidden_it_is_never_called(shelf: Shelf, target: TargetRecord) -> None:
    search = Search(make(BLOCK, shelf, target, library="forbidden"))
    search.run(2, branches=1)
    assert search.attempts
    for attempt in search.attempts:
        forward = attempt.draft.source.split("def forward")[1]
        assert "conv2d(" not in forward
        assert "torch.ops" not in forward


def test_winners_of_different_parts_are_combined(shelf: Shelf, target: TargetRecord) -> None:
    two_parts = reference("return torch.softmax(torch.softmax(a, 0), 1)", "torch.randn(64, 100)")
    search = Search(make(two_parts, shelf, target))
    by_part: dict[str, Idea] = {}
    for idea in search.author.ideas(search.moment(0, 0), 12):
        by_part.setdefault(idea.plan["focus"], idea)
    assert len(by_part) == 2
    for number, idea in enumerate(by_part.values()):
        draft = search.author.draft(search.moment(0, number), idea, 1, ())
        assert draft is not None
        search.add(idea, draft, passed(1.5 + number / 10), 0, 1)
    search.parent = search.attempts[-1]
    merged = search.author.ideas(search.moment(1, 3), 1)[0]
    assert merged.record == "cpu-combine-winners"
    chosen = merged.plan["plan"]["segments"]
    for attempt in search.attempts:
        focus = attempt.idea.plan["focus"]
        assert chosen[focus] == attempt.draft.plan["segments"][focus]
    assert merged.plan["plan"] not in [attempt.draft.plan for attempt in search.attempts]


def test_what_failed_on_this_parent_comes_last(shelf: Shelf, target: TargetRecord) -> None:
    source = reference("return torch.softmax(a, -1)", "torch.randn(64, 1000)")
    search = Search(make(source, shelf, target))
    first = search.author.ideas(search.moment(0, 0), 9)
    draft = search.author.draft(search.moment(0, 0), first[0], 0, ())
    assert draft is not None
    search.add(first[0], draft, Crashed(reason="boom", signal="SIGSEGV"), 0, 0)
    again = search.author.ideas(search.moment(1, 1), 9)
    assert again[0].record != first[0].record
    assert [idea.record for idea in again if idea.record == first[0].record] in (
        [],
        [again[-1].record],
    )


@pytest.mark.slow
def test_a_lesson_of_a_neighbouring_shape_is_where_it_starts(
    shelf: Shelf, target: TargetRecord, documents: list[Document]
) -> None:
    before = reference("return torch.softmax(a, -1)", "torch.randn(64, 1000)")
    search = Search(make(before, shelf, target))
    search.run(2)
    assert search.parent is not None
    won = search.parent.draft.plan
    evidence = Evidence(task="softmax", target="two-cores", before=2, after=1, run="softmax-1")
    lesson = LessonRecord(
        kind="lesson",
        title="Softmax of short rows",
        evidence=(evidence,),
        plan=won,
    )
    record = Document(name="softmax-64", path="softmax-64.md", record=lesson, body="It won.\n")
    later = reference("return torch.softmax(a, -1)", "torch.randn(80, 777)")
    author = make(later, Shelf(documents, [record]), target)
    moment = Search(author).moment(0, 0)
    idea = author.ideas(moment, 3)[0]
    assert idea.title.startswith("Start from what won on softmax")
    draft = author.draft(moment, idea, 0, ())
    assert draft is not None
    ((taught, learned),) = zip(
        won["segments"].values(), draft.plan["segments"].values(), strict=True
    )
    assert (learned["recipe"], learned["knobs"]) == (taught["recipe"], taught["knobs"])
    assert author.draft(moment, idea, 1, ()) is None, "its other settings wait behind other ideas"
    # What was contradicted as often as confirmed, or never measured, is no place to start from.
    lost = evidence.model_copy(update={"outcome": "lost", "after": 3.0, "run": "other-1"})
    for doubtful in ((evidence, lost), (evidence.model_copy(update={"run": None}),)):
        record = replace(record, record=lesson.model_copy(update={"evidence": doubtful}))
        doubting = make(later, Shelf(documents, [record]), target)
        first = doubting.ideas(Search(doubting).moment(0, 0), 1)[0]
        assert not first.title.startswith("Start from")


def test_what_lost_in_earlier_runs_comes_after_what_was_not_tried(
    shelf: Shelf, target: TargetRecord, documents: list[Document]
) -> None:
    source = reference("return torch.softmax(a, -1)", "torch.randn(64, 1000)")
    moment = Search(make(source, shelf, target)).moment(0, 0)
    plain = [idea.record for idea in make(source, shelf, target).ideas(moment, 3)]
    lesson = LessonRecord(
        kind="lesson",
        title="It lost on rows of this length",
        scope=ScopeModel(architecture=(target.architecture,), language=("cpp",)),
        claim=Claim(effect="hurts", subject="x", basis="reference", pattern="rows"),
        evidence=(
            Evidence(task="s", target="t", before=1, after=2, run="s-1", outcome="lost"),
            Evidence(task="s", target="t", before=1, after=2, run="s-2", outcome="lost"),
        ),
        idea=plain[0],
    )
    for effect, place in (("hurts", -1), ("helps", 0)):
        claim = lesson.claim.model_copy(update={"effect": effect}) if lesson.claim else None
        outcome = {"outcome": "won", "after": 0.5} if effect == "helps" else {}
        told = tuple(one.model_copy(update=outcome) for one in lesson.evidence)
        about = plain[0] if effect == "hurts" else plain[-1]
        update = {"claim": claim, "evidence": told, "idea": about}
        record = lesson.model_copy(update=update)
        document = Document(name="l", path="l.md", record=record, body="x")
        author = make(source, Shelf(documents, [document]), target)
        found = [idea.record for idea in author.ideas(moment, 30)]
        firsts = list(dict.fromkeys(found))
        assert firsts[place] == about


def test_an_operator_that_nothing_covers_is_named(shelf: Shelf, target: TargetRecord) -> None:
    source = reference("return torch.sort(a, -1)[0]", "torch.randn(5, 9)")
    with pytest.raises(NoRecipe, match=r"sort.*configure a model") as raised:
        make(source, shelf, target)
    assert raised.value.exit_code == 3
    assert "\n" not in str(raised.value)


def test_what_no_kernel_can_hold_is_left_to_the_library(shelf: Shelf, target: TargetRecord) -> None:
    # Rows' truth values among those of a product of other sizes: no one loop computes both.
    source = reference(
        "return torch.relu(a) * 2, torch.where((a.sum(-1) > 0) & (a @ a.t() < 1), 1.0, 2.0)",
        "torch.randn(9, 33)",
    )
    search = Search(make(source, shelf, target))
    search.run(1)
    assert search.attempts
    assert all("aten.where" in attempt.draft.source for attempt in search.attempts)
    with pytest.raises(NoRecipe, match=r"gt.*configure a model"):
        make(source, shelf, target, library="forbidden")


def test_with_the_library_forbidden_one_uncovered_operator_is_too_many(
    shelf: Shelf, target: TargetRecord
) -> None:
    source = reference("return torch.relu(torch.sort(a, -1)[0]) * 2", "torch.randn(5, 9)")
    make(source, shelf, target)
    with pytest.raises(NoRecipe, match="sort"):
        make(source, shelf, target, library="forbidden")


def test_a_device_without_recipes_is_refused(shelf: Shelf, target: TargetRecord) -> None:
    gpu = target.model_copy(update={"device": "gpu", "name": "mi300x"})
    for language in ("cpp", "cuda"):  # the first is for CPUs, the second for another vendor
        with pytest.raises(NoRecipe, match=r"mi300x.*configure a model") as raised:
            make(BLOCK, shelf, gpu, language=language)
        assert "\n" not in str(raised.value)
    with pytest.raises(NoRecipe, match=r"two-cores.*triton"):
        make(BLOCK, shelf, target, language="triton")


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_every_example_gets_ideas_whose_sources_keep_the_constructor(
    name: str, shelf: Shelf, target: TargetRecord
) -> None:
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    author = make(source, shelf, target)
    moment = Search(author).moment(0, 0)
    ideas = author.ideas(moment, 4)
    assert ideas
    for idea in ideas:
        draft = author.draft(moment, idea, 0, ())
        assert draft is not None
        assert "class ModelNew" in draft.source
        assert "get_inputs" not in draft.source
        assert "class Model(" not in draft.source
        compile(draft.source, name, "exec")


def test_measurements_of_a_record_count_by_how_near_their_lengths_are(
    cards: dict[str, RecipeCard],
) -> None:
    card = replace(cards["gpu-rows-on-chip"], measured={"h200": ((1000, 2.0), (100_000, 0.5))})
    assert card.expected("h200", 1000) > 1.5
    assert card.expected("h200", 100_000) < 0.7
    assert card.expected("h200", 10) == pytest.approx(1, abs=0.05)
    assert card.expected("another", 1000) == 1


def test_on_a_gpu_a_product_begins_with_what_was_measured_to_win(
    cards: dict[str, RecipeCard],
) -> None:
    source = reference(
        "return F.relu(self.l(a))", "torch.randn(2048, 2048)", init="self.l = nn.Linear(2048, 2048)"
    )
    target = find_target("h200")
    suited = suiting(cards, target, ("triton", "cuda"))
    shop = make_shop(source, target, Bench(source, {}).graph, suited)
    (part,) = shop.cut(())
    assert shop.recipes(part)[0].name == "gpu-matmul-split-half"
    moment = Moment(
        round=0, seed=0, parent=None, history=(), diagnosis=Diagnosis(symptoms=(), lines=())
    )
    retrieved = ("gpu-fuse-into-library-producer", "gpu-matmul-split-half")
    found = list(proposals(shop, start(shop, shop.base(), None), moment, retrieved))
    assert found[0].card.name == "gpu-matmul-split-half"
    assert found[0].speed > 1 > found[-1].speed


def test_the_part_that_takes_most_of_the_time_comes_before_one_that_gains_more_itself(
    cards: dict[str, RecipeCard],
) -> None:
    source = reference(
        "return F.relu(self.l(a))", "torch.randn(512, 512)", init="self.l = nn.Linear(512, 512)"
    )
    names = {"cpu-matmul-packed": 1.3, "cpu-pointwise-fused": 3.0}
    few = {
        name: replace(cards[name], measured={"zen5": ((512, ratio),) * 50})
        for name, ratio in names.items()
    }
    target = find_target("zen5")
    shop = make_shop(source, target, Bench(source, {}).graph, few)
    moment = Moment(
        round=0, seed=0, parent=None, history=(), diagnosis=Diagnosis(symptoms=(), lines=())
    )
    plan = start(shop, frozenset({"linear"}), None)
    product, chain = proposals(shop, plan, moment, ())
    assert product.card.name == "cpu-matmul-packed"
    assert product.speed == pytest.approx(1.3, rel=0.01)
    assert 1 < chain.speed < 1.1  # a relu is a small part of it


def test_recipes_do_all_products_at_once_where_there_are_several(
    cards: dict[str, RecipeCard],
) -> None:
    source = reference(
        "return F.relu(self.m(F.relu(self.l(a))))",
        "torch.randn(2048, 2048)",
        init="self.l = nn.Linear(2048, 2048)\nself.m = nn.Linear(2048, 2048)",
    )
    target = find_target("h200")
    suited = suiting(cards, target, ("triton", "cuda"))
    shop = make_shop(source, target, Bench(source, {}).graph, suited)
    (found,) = whole_program(shop)
    assert found.plan["library"] == []
    assert len(found.plan["segments"]) == 2
    # Two layers that are alike are written and compiled once.
    assert "kernel1 = kernel0" in shop.source(found.plan)


def test_what_won_on_this_architecture_is_tried_before_what_won_better_on_another(
    cards: dict[str, RecipeCard],
) -> None:
    source = reference("return torch.softmax(a, -1)", "torch.randn(4096, 1024)")
    target = find_target("h200")
    shop = make_shop(source, target, Bench(source, {}).graph, suiting(cards, target, ("triton",)))
    lessons = [
        (name, LessonRecord(
            kind="lesson",
            title="Rows",
            scope={"architecture": architecture},
            evidence=(Evidence(task="rows", target=name, before=gain, after=1, run="rows-1"),),
            plan=shop.complete((), {}),
        ))
        for name, architecture, gain in (
            ("a100", ["sm_80"], 9), ("h200", [target.architecture], 1.5), ("anywhere", [], 2),
        )
    ]  # fmt: skip
    found = [one.lesson for one in from_lessons(shop, shop.base(), lessons, target.architecture)]
    assert found == ["anywhere", "h200", "a100"]


def test_a_lesson_of_elementwise_work_says_nothing_of_a_product(
    cards: dict[str, RecipeCard],
) -> None:
    chain = reference("return torch.relu(a) * 2", "torch.randn(384, 256)")
    dense = reference(
        "return torch.relu(self.l(a))", "torch.randn(384, 256)", init="self.l = nn.Linear(256, 256)"
    )
    suited = suiting(cards, TWO_CORES, ("cpp",))
    won, shop = (
        make_shop(source, TWO_CORES, Bench(source, {}).graph, suited) for source in (chain, dense)
    )

    def kept(shop: Composer, operators: list[str]) -> bool:
        lesson = LessonRecord(
            kind="lesson",
            title="A chain",
            scope={"operator": operators},
            evidence=(Evidence(task="l", target="zen4", before=2, after=1, run="l-1"),),
            plan=won.complete((), {}),
        )
        return bool([*from_lessons(shop, shop.base(), [("l", lesson)], "zen4")])

    assert kept(won, ["elementwise"])
    assert not kept(shop, ["elementwise"])
    assert kept(shop, ["matmul", "elementwise"])


def test_a_lesson_of_products_leaves_those_to_the_library_that_no_recipe_fits(
    cards: dict[str, RecipeCard],
) -> None:
    large = reference(
        "return self.l(a)", "torch.randn(2048, 2048)", init="self.l = nn.Linear(2048, 2048)"
    )
    both = reference(
        "return self.m(F.relu(self.l(a))[:8, :256])",
        "torch.randn(2048, 2048)",
        init="self.l = nn.Linear(2048, 2048)\nself.m = nn.Linear(256, 10)",
    )
    target = find_target("h200")
    large_tiles = {name: one for name, one in cards.items() if "matmul-tiles" not in name}
    suited = suiting(large_tiles, target, ("triton", "cuda"))
    won, shop = (
        make_shop(source, target, Bench(source, {}).graph, suited) for source in (large, both)
    )
    small = [
        part.anchor
        for part in shop.cut(())
        if part.anchor in shop.anchors and not shop.recipes(part)
    ]
    assert small == ["linear_1"]
    lesson = LessonRecord(
        kind="lesson",
        title="A large product",
        evidence=(Evidence(task="l", target="h200", before=2, after=1, run="l-1"),),
        plan=won.complete((), {}),
    )
    (found,) = from_lessons(shop, shop.base(), [("l", lesson)], target.architecture)
    assert found.plan["library"] == small
    assert found.focus is not None
    assert found.focus.startswith("matmul:")
