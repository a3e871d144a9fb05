from collections import Counter
from collections.abc import Sequence
from math import log

import pytest

from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.authors.model_pool import Cast, NoAccounts, Voice, gains_of
from search.outcome import Passed, Ratio, Wrong
from search.runs.spending import Spent
from search.task import ModelSettings
from synth.models.scripted import Scripted

# The package that carries the token ranks opens them in a deprecated way when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")


def voice(name: str, weight: float = 1.0) -> Voice:
    return Voice(model=Scripted([], name=name), settings=ModelSettings(name=name, weight=weight))


def moment(seed: int, *history: Attempt) -> Moment:
    diagnosis = Diagnosis(symptoms=(), lines=())
    return Moment(round=1, seed=seed, parent=None, history=history, diagnosis=diagnosis)


def attempt(number: int, key: str, speedup: float, parent: int | None = None) -> Attempt:
    ratio = {"eager": Ratio(ratio=speedup, low=speedup, high=speedup)}
    outcome = (
        Passed(seconds=1.0, samples=1, speedup=ratio, max_error=0.0, allowed_error=0.0)
        if speedup
        else Wrong(reason="no")
    )
    idea = Idea(title="t", text="t", category="memory access", exchanges=(f"idea-{key}",))
    draft = Draft(source=f"s{number}", exchanges=(f"first-{key}", key))
    return Attempt(
        number=number, parent=parent, round=0, branch=0, idea=idea, draft=draft, outcome=outcome
    )


class Books(NoAccounts):
    """Exchanges are named MODEL/NUMBER; every call cost what a test says."""

    def __init__(self, costs: dict[str, float | None], calls: int) -> None:
        super().__init__()
        self.costs, self.calls = costs, calls

    def spent(self, model: str, role: str) -> Spent:
        cost = self.costs[model]
        total = None if cost is None else cost * self.calls
        return Spent(calls=self.calls, tokens=1000 * self.calls, cost=total)

    def writer(self, exchange: str) -> str | None:
        return exchange.removeprefix("idea-").partition("/")[0]


def asked(cast: Cast, history: Sequence[Attempt], times: int = 300) -> Counter[str]:
    return Counter(cast.voice("code", moment(seed, *history)).model.name for seed in range(times))


def test_one_model_writes_everything_but_diagnoses() -> None:
    one = ModelSettings(name="one")
    cast = Cast.of(Scripted([], name="one"), one)
    for role in ("ideas", "code", "repair"):
        assert cast.voice(role, moment(1)).settings is one
    assert cast.members("diagnosis") == ()


def test_a_role_without_a_model_takes_the_one_that_is_nearest() -> None:
    cast = Cast({"ideas": [voice("thinker")], "code": [voice("coder")]})
    assert cast.voice("repair", moment(1)).model.name == "coder"
    assert cast.voice("ideas", moment(1)).model.name == "thinker"


def test_an_ensemble_is_asked_by_its_weights() -> None:
    counts = asked(Cast({"code": [voice("often", 3), voice("seldom")]}), ())
    assert 190 < counts["often"] < 260


def test_a_place_that_was_reached_before_asks_the_same_model() -> None:
    books = NoAccounts()
    members = [voice("a"), voice("b"), voice("c")]
    first = [Cast({"code": members}, accounts=books).voice("code", moment(n)).model.name
             for n in range(20)]  # fmt: skip
    reversed_cast = Cast({"code": members[::-1]}, accounts=books, choose="bandit")
    assert [reversed_cast.voice("code", moment(n)).model.name for n in range(20)] == first


def test_the_bandit_tries_everyone_before_it_knows_anything() -> None:
    counts = asked(Cast({"code": [voice("a"), voice("b")]}, choose="bandit",
                        accounts=Books({"a": 0.0, "b": 0.0}, 0)), ())  # fmt: skip
    assert min(counts["a"], counts["b"]) > 90


def test_the_bandit_prefers_the_model_that_gains_more_at_the_same_cost() -> None:
    history = [attempt(n, f"strong/{n}", 2.0) for n in range(10)]
    history += [attempt(10 + n, f"weak/{n}", 0.0) for n in range(10)]
    books = Books({"strong": 0.01, "weak": 0.01}, 10)
    counts = asked(Cast({"code": [voice("weak"), voice("strong")]}, choose="bandit",
                        accounts=books), history)  # fmt: skip
    assert counts["strong"] > 280


def test_the_bandit_prefers_the_cheaper_of_two_that_gain_alike() -> None:
    history = [attempt(n, f"dear/{n}", 1.5) for n in range(10)]
    history += [attempt(10 + n, f"cheap/{n}", 1.5) for n in range(10)]
    books = Books({"dear": 0.10, "cheap": 0.01}, 10)
    counts = asked(Cast({"code": [voice("dear"), voice("cheap")]}, choose="bandit",
                        accounts=books), history)  # fmt: skip
    assert counts["cheap"] > 280


def test_calls_that_came_to_nothing_count_against_a_model() -> None:
    history = [attempt(0, "talker/0", 2.0)]
    history += [attempt(1 + n, f"worker/{n}", 2.0) for n in range(20)]
    books = Books({"talker": 0.01, "worker": 0.01}, 20)  # one node of twenty calls
    counts = asked(Cast({"code": [voice("talker"), voice("worker")]}, choose="bandit",
                        accounts=books), history)  # fmt: skip
    assert counts["worker"] > 250


def test_where_a_price_is_missing_tokens_are_the_cost() -> None:
    history = [attempt(n, f"a/{n}", 1.5) for n in range(5)]
    history += [attempt(5 + n, f"b/{n}", 1.5) for n in range(5)]
    books = Books({"a": None, "b": 5.0}, 5)
    counts = asked(Cast({"code": [voice("a"), voice("b")]}, choose="bandit", accounts=books),
                   history)  # fmt: skip
    assert min(counts.values()) > 90


def test_a_gain_is_measured_against_the_parent() -> None:
    history = [attempt(0, "a/0", 2.0), attempt(1, "b/0", 2.0, parent=0),
               attempt(2, "b/1", 4.0, parent=0)]  # fmt: skip
    writer = Books({}, 0).writer
    gains = gains_of(history, "code", writer)
    first, same, better = (one.merit for one in history)
    assert gains["a"] == pytest.approx([log(first)])
    assert gains["b"] == pytest.approx([0.0, log(better / first)])
    assert same == first < better
    assert gains_of(history, "ideas", writer).keys() == {"a", "b"}
