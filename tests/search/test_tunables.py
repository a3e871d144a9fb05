import pytest
from play import Deterministic, Logged, Silent, Watcher, open_storage, settings_of

from search.attempt import Attempt, Diagnosis, Draft, Idea
from search.drivers.sequential import Driver
from search.graph import Graph
from search.loop import Search
from search.outcome import Outcome, Passed, Ratio, Wrong
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.tunables import Tunable, next_setting, promising, read_knobs

SOURCE = '''import torch
KNOBS = {"TILE": [32, 64, 128], "UNROLL": (1, 4), "WARPS": [4, 8], "BIAS": [0.5, 1.0]}
TILE: int = 64  # "Größe"
WARPS = tl.constexpr(4)
CPP = r"""
#define UNROLL 2
constexpr float BIAS = 0.5;
int other = TILE;
"""


class ModelNew:
    pass
'''


def passed(seconds: float) -> Passed:
    ratio = 1e-3 / seconds
    return Passed(
        seconds=seconds,
        samples=9,
        speedup={"eager": Ratio(ratio=ratio, low=ratio, high=ratio)},
        max_error=0.0,
        allowed_error=1.0,
    )


def attempt(number: int, source: str, outcome: Outcome) -> Attempt:
    idea = Idea(title="t", text="x", category="c")
    draft = Draft(source=source)
    return Attempt(
        number=number, parent=None, round=0, branch=number, idea=idea, draft=draft, outcome=outcome
    )


def tunable(source: str = SOURCE) -> Tunable:
    found = read_knobs(source)
    assert isinstance(found, Tunable), found
    return found


def test_constants_are_found_in_python_and_in_the_text_of_kernels() -> None:
    found = tunable()
    assert found.chosen == {"TILE": 64, "UNROLL": 2, "WARPS": 4, "BIAS": 0.5}
    assert found.values["UNROLL"] == (1, 2, 3, 4)


def test_another_setting_changes_the_numbers_and_nothing_else() -> None:
    source = tunable().with_values({"TILE": 128, "UNROLL": 4, "WARPS": 8, "BIAS": 1.0})
    expected = SOURCE.replace("TILE: int = 64", "TILE: int = 128").replace("UNROLL 2", "UNROLL 4")
    expected = expected.replace("constexpr(4)", "constexpr(8)").replace("= 0.5;", "= 1.0;")
    assert source == expected
    assert tunable(source).frame == tunable().frame


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("KNOBS = {'A': [1, 2]}", "set 0 times"),
        ("KNOBS = {'A': [1, 2]}\nA = 1\nA = 2", "set 2 times"),
        ("KNOBS = {'A': [1, 2]}\nA = f(x, y)", "set 0 times"),
        ("KNOBS = {'A': ['x', 'y']}\nA = 1", "neither a list of numbers"),
        ("KNOBS = {'A': (1, 100000)}\nA = 1", "expected 2 to 64"),
        ("KNOBS = {'A': [1]}\nA = 1", "has 1 values"),
        ("KNOBS = {'A': (4, 1)}\nA = 1", "empty range"),
        ("KNOBS = {'A': (0.5, 1.5)}\nA = 1", "whole numbers"),
        ("KNOBS = dict(A=[1, 2])\nA = 1", "no dictionary of literals"),
        ("KNOBS = {}\nA = 1", "no dictionary of literals"),
        ("KNOBS = {[1]: [1, 2]}\nA = 1", "no dictionary of literals"),
        (f"KNOBS = {'{' * 90 + '}' * 90}\nA = 1", "no dictionary of literals"),
        ("KNOBS = {'A': [1, 2]}\nA = 0x10", "no plain number"),
        (f"KNOBS = {{'A': [1, {'9' * 400}]}}\nA = 1", "neither a list of numbers"),
        ("KNOBS = {'A': [1e999, 2]}\nA = 1", "neither a list of numbers"),
        ("KNOBS = {'A': [1, 2]}\nA = {[1]: 2}", "set 0 times"),
        ("KNOBS = {'A': [1, 2]}\nA = " + "-" * 60 + "1", "set 0 times"),
    ],
)
def test_a_declaration_that_cannot_be_used_says_why(source: str, problem: str) -> None:
    found = read_knobs(source)
    assert isinstance(found, str)
    assert problem in found


@pytest.mark.parametrize("source", ["A = 1", "KNOBS = {", "x = 'KNOBS'", "def KNOBS(): ..."])
def test_a_source_that_declares_nothing_has_nothing_to_tune(source: str) -> None:
    assert read_knobs(source) is None


def test_lines_are_counted_as_python_counts_them() -> None:
    found = read_knobs("KNOBS = {'A': [1, 2]}\nx = 'é\x0c\x1c\u2028é'\r\n'é'; A = 1\n")
    assert isinstance(found, Tunable)
    assert found.with_values({"A": 2}).endswith("'é'; A = 2\n")


def test_a_text_that_begins_a_declaration_thousands_of_times_is_no_work() -> None:
    text = "constexpr " * 60_000
    assert isinstance(read_knobs(f"KNOBS = {{'A': [1, 2]}}\nA = 1\nCPP = '{text}'"), Tunable)


def test_every_setting_is_tried_once_and_then_there_is_none() -> None:
    source = "KNOBS = {'A': [1, 2, 3], 'B': (0, 1)}\nA = 1\nB = 0\n"
    nodes = [attempt(0, source, passed(1.0))]
    while (draft := next_setting(tunable(source), nodes, 7)) is not None:
        nodes.append(attempt(len(nodes), draft.source, Wrong(reason="x")))
    assert len({node.draft.source for node in nodes}) == len(nodes) == 6


def test_the_fastest_is_tuned_and_only_where_it_is_near_the_best_of_the_run() -> None:
    slow, fast = attempt(0, SOURCE, passed(2e-3)), attempt(1, SOURCE + "#", passed(1e-3))
    found = promising([slow, fast], fast.merit)
    assert found is not None
    assert found[0] is fast
    assert promising([slow, fast], 2 * fast.merit) is None
    assert promising([attempt(0, SOURCE, Wrong(reason="x"))], 0.0) is None


class Tunes(Deterministic):
    def draft(self, moment, idea, branch, siblings):
        return Draft(source=f"KNOBS = {{'A': (1, 40)}}\nA = 20\n# {idea.title} {branch}\n")


class Valley(Logged):
    """Faster the nearer A is to 33."""

    def evaluate(self, source: str) -> Outcome:
        self.judged.append(source)
        return passed(1e-3 * (1 + abs(tunable(source).chosen["A"] - 33)))


def run(folder, stop_at: int | None = None) -> Graph:
    storage = open_storage(folder)
    runs = storage.runs()
    record = storage.record(runs[0].run) if runs else storage.begin("play", {})
    settings = settings_of(
        search={"rounds": 1, "ideas": 1, "branches": 1, "knob_trials": 12},
        stop={"candidates": stop_at, "minutes": None, "stalled_rounds": None, "roofline": None},
    )
    search = Search(
        record,
        POLICIES.create("beam"),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context="play",
    )
    Driver(search, Tunes(), Valley(None, 0), storage, RecordingRetriever(Silent()), Watcher()).run()
    return record.graph


def test_declared_constants_are_searched_without_the_author(tmp_path) -> None:
    graph = run(tmp_path)
    assert len(graph.nodes) == 13
    assert [node.parent for node in graph.nodes[1:]] != [None] * 12
    found = {tunable(node.draft.source).chosen["A"] for node in graph.nodes}
    assert len(found) == 13
    assert min(abs(value - 33) for value in found) < 13
    assert not any(node.draft.exchanges for node in graph.nodes)


def test_tuning_that_is_broken_off_ends_as_an_unbroken_one(tmp_path) -> None:
    whole = run(tmp_path / "whole")
    part = run(tmp_path / "part", stop_at=5)
    assert [n.draft.source for n in part.nodes] == [n.draft.source for n in whole.nodes[:5]]


def test_a_million_digits_are_no_number_and_take_no_day() -> None:
    long = tunable('KNOBS = {"TILE": [1, 2]}\nTILE = 1\n#define TILE ' + "1" * 1_000_000 + "x\n")
    assert long.chosen == {"TILE": 1}


def test_a_comment_behind_a_definition_is_none_of_its_business() -> None:
    text = 'KNOBS = {"TILE": [1, 2], "LAG": [0, 1]}\n#define TILE 1  // 8 a warp\n#define LAG (1) /* of 2 */\n'
    assert isinstance(read_knobs(text.replace("of 2 */", "of 2 */ + 3 /* or so */")), str)
    found = tunable(text)
    assert found.chosen == {"TILE": 1, "LAG": 1}
    changed = found.with_values({"TILE": 2, "LAG": 0})
    assert changed.endswith("#define TILE 2  // 8 a warp\n#define LAG (0) /* of 2 */\n")
