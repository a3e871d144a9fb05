import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from synth.models.client.keys import find_key

SECRET = "sk-of-the-ring-12345"


class Ring(KeyringBackend):
    """Holds one entry."""

    priority = 9.0  # type: ignore[assignment]

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def get_password(self, service: str, username: str) -> str | None:
        return SECRET if (service, username) == ("kb", "MY_KEY") else None


class Locked(Ring):
    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("locked")


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring

    monkeypatch.delenv("MY_KEY", raising=False)
    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    yield
    keyring.set_keyring(before)


def test_a_key_may_lie_in_the_keyring(ring: None) -> None:
    key = find_key(("OTHER_KEY", "MY_KEY"))
    assert (key.reveal(), key.source) == (SECRET, "MY_KEY")


def test_the_environment_comes_first(ring: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-of-the-environment")
    assert find_key(("MY_KEY",)).reveal() == "sk-of-the-environment"


def test_a_locked_keyring_holds_nothing(ring: None) -> None:
    import keyring

    keyring.set_keyring(Locked())
    assert not find_key(("MY_KEY",))


def test_a_key_shows_itself_nowhere(ring: None) -> None:
    key = find_key(("MY_KEY",))
    assert SECRET not in f"{key!r} {key} {[key]}"
    assert key.hide(f"Bearer {SECRET}") == "Bearer ***"
