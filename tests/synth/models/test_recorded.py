import pytest

from kb.errors import ModelError
from synth.models import Message, Reply, Request
from synth.models.recorded import Recorded
from synth.models.scripted import Scripted


def request(text: str, **values: object) -> Request:
    fields = {"max_tokens": 10, "temperature": 0.5, "seed": 1, **values}
    return Request(messages=(Message(role="user", content=text),), **fields)


class Shelf:
    """Exchanges in a dictionary, with the requests as the JSON that a database would keep."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, Reply]] = {}

    def get(self, key: str) -> Reply | None:
        return self.kept[key][1] if key in self.kept else None

    def put(self, key: str, request: Request, reply: Reply) -> None:
        self.kept[key] = (request.to_json(), reply)


def test_what_was_asked_once_is_not_asked_again() -> None:
    shelf = Shelf()
    model = Recorded(Scripted(["first", "second"]), shelf)
    assert [model.reply(request(text)).text for text in ("a", "a", "b", "a")] == [
        "first", "first", "second", "first",
    ]  # fmt: skip


def test_a_record_is_replayed_with_no_model() -> None:
    shelf = Shelf()
    reply = Recorded(Scripted(["first"]), shelf).reply(request("a"))
    assert Recorded(None, shelf).reply(request("a")) == reply


def test_a_replay_names_the_first_request_that_it_does_not_know() -> None:
    unknown = request("Which\nloop order?")
    with pytest.raises(ModelError) as caught:
        Recorded(None, Shelf()).reply(unknown)
    assert unknown.key()[:12] in str(caught.value)
    assert "'Which loop order?'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_failed_request_is_not_recorded() -> None:
    shelf = Shelf()
    with pytest.raises(ModelError):
        Recorded(Scripted([]), shelf).reply(request("a"))
    assert shelf.kept == {}


def test_the_name_is_that_of_the_model_behind_it() -> None:
    assert Recorded(Scripted([], name="tiny"), Shelf()).name == "tiny"
    assert Recorded(None, Shelf(), name="tiny").name == "tiny"


def test_a_recorded_request_can_be_read_back() -> None:
    shelf = Shelf()
    asked = request("ü “quoted” \ud800", schema='{"type":"object"}')
    Recorded(Scripted(["x"]), shelf).reply(asked)
    ((key, (text, _)),) = shelf.kept.items()
    assert Request.from_json(text) == asked
    assert Request.from_json(text).key() == key == asked.key()


@pytest.mark.parametrize(
    "other",
    [
        request("b"),
        request("a", max_tokens=11),
        request("a", temperature=0.6),
        request("a", seed=2),
        request("a", schema="{}"),
        request("a", model="m"),
        Request(
            messages=(Message(role="system", content="a"),), max_tokens=10, temperature=0.5, seed=1
        ),
    ],
)
def test_requests_that_differ_have_different_keys(other: Request) -> None:
    assert other.key() != request("a").key()


def test_the_key_of_a_request_never_changes() -> None:
    # Records of earlier versions are found by it.
    assert request("a").key() == "8cefc588ba97a9f728e1a5deaf66a1710a373580c967c33b3c788fdb2af729cb"
