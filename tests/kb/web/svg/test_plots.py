from __future__ import annotations

from math import inf, nan
from xml.etree import ElementTree

import pytest

from kb.web.story import Brief
from kb.web.svg.draw import number
from kb.web.svg.fast_p import BOTTOM, HEIGHT, LEFT, TOP, fast_p
from kb.web.svg.roofline import roofline
from kb.web.svg.samples import samples
from kb.web.svg.sparkline import sparkline
from kb.web.svg.staircase import AXES, staircase
from kb.web.svg.tree import draw_tree
from kb.web.views.measures import Roof, Spot
from kb.web.views.run import Point
from kb.web.views.tree import Group, Leaf, Tree
from search.outcome import Ratio

RUN = Brief(
    number=1, run="r", address="r", task="t", target="zen4", language="cpp", author="a", state="finished",
    stop_reason="", started=0.0, seconds=1.0, candidates=0, outcomes={}, best=None, baselines={}, families=(),
)  # fmt: skip


def parsed(svg: object) -> ElementTree.Element:
    """The drawing is well-formed, and every coordinate is a number."""
    text = str(svg)
    assert "nan" not in text
    assert "inf" not in text
    return ElementTree.fromstring(text)


def point(place: int, ratio: float | None, outcome: str = "passed") -> Point:
    speedup = (
        {} if ratio is None else {"eager": Ratio(ratio=ratio, low=ratio * 0.9, high=ratio * 1.1)}
    )
    return Point(
        number=place - 1,
        place=place,
        second=place * 2.0,
        tokens=place * 100,
        outcome=outcome,
        speedup=speedup,
    )


@pytest.mark.parametrize("axis", AXES)
def test_the_staircase_links_to_each_candidate_that_raised_the_best(axis):
    points = [point(1, 2.0), point(2, 1.5), point(3, None, "wrong"), point(4, 5.0)]
    svg = parsed(staircase(points, axis, lambda number: f"n{number}"))
    assert [a.get("href") for a in svg.iter("a")] == ["n0", "n3"]
    assert len(svg.findall(".//path[@class='failed wrong']")) == 1
    assert len(svg.findall(".//path[@class='band eager']")) == 1


@pytest.mark.parametrize(
    "ratios", [[], [None], [nan], [inf, 2.0], [1e-9], [1e9, 1.0], [0.0], [1.0, 1.0]]
)
def test_every_staircase_can_be_drawn(ratios):
    points = [
        point(n, ratio, "crashed" if ratio is None else "passed")
        for n, ratio in enumerate(ratios, 1)
    ]
    for axis in AXES:
        parsed(staircase(points, axis, str))


def test_a_staircase_of_ten_thousand_candidates_is_no_larger_than_its_pixels_need():
    points = [
        point(n, None if n % 3 else 1 + n % 7, "wrong" if n % 3 else "passed")
        for n in range(1, 10_001)
    ]
    assert len(staircase(points, "candidates", str)) < 60_000


def test_spark_lines_are_drawn_of_anything():
    for values in ((), (0.0,), (0.0, 2.0), (3.0, 3.0), tuple(map(float, range(48)))):
        if values:
            parsed(sparkline(values))
    assert sparkline(()) == ""


def test_the_roof_holds_the_node_its_ancestors_and_the_baselines():
    spots = (
        Spot(name="eager", kind="baseline", node=None, intensity=1.0, rate=1e9),
        Spot(name="node 1", kind="ancestor", node=1, intensity=10.0, rate=1e10),
        Spot(name="node 2", kind="node", node=2, intensity=10.0, rate=2e10),
    )
    svg = parsed(
        roofline(Roof(peak=1e11, bandwidth=1e10, spots=spots), lambda number: f"n{number}")
    )
    assert {a.get("href") for a in svg.iter("a")} == {"n1", "n2"}
    assert "20.0% of what is attainable" in svg.get("aria-label")


def test_the_calls_of_each_contender_are_a_row():
    svg = parsed(samples({"eager": [2e-3, 2.1e-3], "candidate": [1e-3, 1.1e-3, 1.2e-3]}))
    assert svg.get("aria-label").startswith("this node: least 1 ms")
    assert len(svg.findall(".//path[@class='least']")) == 2
    assert samples({"eager": []}) == ""
    assert len(samples({"candidate": [1e-3 + n * 1e-9 for n in range(100_000)]})) < 20_000


def group(numbers: range, round: int = 0, above: int | None = None, title: str = "Idea") -> Group:
    leaves = tuple(
        Leaf(number=n, outcome="passed" if n % 2 else "wrong", ratio=2.0 if n % 2 else None)
        for n in numbers
    )
    return Group(
        round=round,
        ideas=1,
        title=title,
        leaves=leaves,
        above=above,
        on_path=above is None,
        leads=False,
    )


@pytest.mark.parametrize("many", [3, 200])
def test_a_tree_has_a_link_for_each_idea_and_a_mark_for_each_candidate(many):
    groups = tuple(
        group(range(n * 4, n * 4 + 4), round=n // 10, above=None if n < 10 else n - 10)
        for n in range(many)
    )
    tree = Tree(run=RUN, groups=groups, candidates=many * 4, most=2.0, folded=0)
    svg = parsed(draw_tree(tree, lambda number: f"n{number}"))
    assert len(list(svg.iter("a"))) == many
    marks = [
        path.get("d").count("M") for path in svg.iter("path") if "leaf" in path.get("class", "")
    ]
    assert sum(marks) == many * 4


def test_a_title_is_text_in_a_drawing():
    title = '</title><script>alert(1)</script>"\u202e'
    tree = Tree(run=RUN, groups=(group(range(2), title=title),), candidates=2, most=1.0, folded=0)
    svg = str(draw_tree(tree, str))
    assert "<script" not in svg
    assert "\u202e" not in svg
    assert "script" in parsed(svg).find(".//title").text


def test_the_curve_of_one_solved_problem_of_ten_starts_at_a_tenth() -> None:
    ten = fast_p({"eager": [(0.0, 0.1), (1.5, 0.0)]})
    assert "over eager: 1 solved" in ten
    floor, top = HEIGHT - BOTTOM, TOP
    assert f'd="M{number(LEFT)} {number(floor - 0.1 * (floor - top))}H' in ten
