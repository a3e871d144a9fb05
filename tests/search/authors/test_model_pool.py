from collections import Counter

import pytest

from search.attempt import Diagnosis, Moment
from search.authors.model_pool import ModelPool, NoAccounts, PoolMember
from search.settings import ModelSettings
from synth.models.scripted import Scripted

# The package that carries the token ranks opens them in a deprecated way when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")


def voice(name: str, weight: float = 1.0) -> PoolMember:
    return PoolMember(
        model=Scripted([], name=name), settings=ModelSettings(name=name, weight=weight)
    )


def moment(seed: int) -> Moment:
    diagnosis = Diagnosis(symptoms=(), lines=())
    return Moment(round=1, seed=seed, parent=None, history=(), diagnosis=diagnosis)


def asked(cast: ModelPool, times: int = 300) -> Counter[str]:
    return Counter(cast.voice("code", moment(seed)).model.name for seed in range(times))


def test_one_model_writes_everything_but_diagnoses() -> None:
    one = ModelSettings(name="one")
    cast = ModelPool.of(Scripted([], name="one"), one)
    for role in ("ideas", "code", "repair"):
        assert cast.voice(role, moment(1)).settings is one
    assert cast.members("diagnosis") == ()


def test_a_role_without_a_model_takes_the_one_that_is_nearest() -> None:
    cast = ModelPool({"ideas": [voice("thinker")], "code": [voice("coder")]})
    assert cast.voice("repair", moment(1)).model.name == "coder"
    assert cast.voice("ideas", moment(1)).model.name == "thinker"


def test_an_ensemble_is_asked_by_its_weights() -> None:
    counts = asked(ModelPool({"code": [voice("often", 3), voice("seldom")]}))
    assert 190 < counts["often"] < 260


def test_a_place_that_was_reached_before_asks_the_same_model() -> None:
    books = NoAccounts()
    members = [voice("a"), voice("b"), voice("c")]
    first = [ModelPool({"code": members}, accounts=books).voice("code", moment(n)).model.name
             for n in range(20)]  # fmt: skip
    reversed_cast = ModelPool({"code": members[::-1]}, accounts=books)
    assert [reversed_cast.voice("code", moment(n)).model.name for n in range(20)] == first
