"""What models behind an official client have in common: how they are reached, and how they answer."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, ClassVar

from synth.models import Reply, Request
from synth.models.client.http import Broken, Connection, PartialAnswer, Wire


class Endpoint(ABC):
    """A model at an endpoint; a protocol says what to send and how to read what comes.

    The key comes from the environment or the keyring, and is neither logged nor recorded. Answers
    are streamed, so that progress can be shown and a slow one stopped; an endpoint that answers in
    one piece is understood too.

    Args:
        name: the model's name at the endpoint.
        base_url: the endpoint; None for the one that the environment names, or the maker's own.
        keys: names under which the key may be found, the first one that holds something wins; None
            for the protocol's usual ones.
        timeout_seconds: longest wait for one answer.
        retries: how often to ask again after a 429, a 5xx or a broken connection.
        say: told, once each, what the endpoint refuses and what is done instead, and every wait.
        heard: told the model and how many tokens of an answer have come so far.
        sleep: waits between tries.
    """

    # Of each protocol: the client's module and class, and the names of its settings.
    sdk: ClassVar[Any]
    client: ClassVar[Any]
    url_variable: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]]

    def __init__(  # noqa: PLR0913 - an endpoint has that many properties
        self,
        name: str,
        *,
        base_url: str | None = None,
        keys: tuple[str, ...] | None = None,
        timeout_seconds: float = 300.0,
        retries: int = 3,
        say: Callable[[str], None] | None = None,
        heard: Callable[[str, int], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        url = base_url or os.environ.get(self.url_variable) or None
        line = Connection(
            url=url,
            keys=keys or self.key_variables,
            needs_key=url is None,
            timeout_seconds=timeout_seconds,
            retries=retries,
            say=say,
            heard=heard,
            sleep=sleep,
        )
        self._wire = Wire(self.sdk, name, line)
        self._lock = Lock()
        self._connected: Any = None

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._wire.name

    def reply(self, request: Request) -> Reply:
        """Return the endpoint's answer; counts that it does not give are 0.

        Raises:
            ModelError: no key where one is needed, the endpoint cannot be reached or refuses the
                request, or what answers is not such an endpoint.
        """
        client = self._connect()

        def call(answer: PartialAnswer) -> None:
            started = time.perf_counter()
            raw = self._send(client, self._arguments(request))
            if "event-stream" not in raw.headers.get("content-type", ""):
                with _of_known_form():
                    self._read_whole(json.loads(raw.http_response.read()), answer)
                return
            with raw.parse() as stream:
                for event in stream:
                    with _of_known_form():
                        spoke = self._read_event(event.to_dict(), answer)
                    if spoke:
                        self._wire.listen(answer, started)
            if self._begun(answer) and not answer.finish:
                raise Broken("no end")

        return self._wire.ask(request.schema is not None, call)

    def _connect(self) -> Any:
        with self._lock:
            if self._connected is None:
                key = self._wire.key()
                self._connected = self.client(
                    # The client insists on a key; an endpoint that needs none ignores it.
                    api_key=key.reveal() or "none",
                    base_url=self._wire.line.url,
                    timeout=self._wire.line.timeout_seconds,
                    max_retries=0,
                )
            return self._connected

    def _begun(self, answer: PartialAnswer) -> bool:
        """Say whether an answer began that must say how it ends."""
        return answer.valid

    @abstractmethod
    def _send(self, client: Any, values: Mapping[str, Any]) -> Any:
        """Send a request; return the client's raw response."""

    @abstractmethod
    def _arguments(self, request: Request) -> dict[str, Any]:
        """Return what the protocol sends for a request, without what the endpoint refuses."""

    @abstractmethod
    def _read_event(self, event: Mapping[str, Any], answer: PartialAnswer) -> bool:
        """Take one event in; say whether it brought a piece of the reply or of its thinking."""

    @abstractmethod
    def _read_whole(self, body: Any, answer: PartialAnswer) -> None:
        """Take in an answer that came in one piece."""


@contextmanager
def _of_known_form() -> Iterator[None]:
    """Tell an answer of another form, in which something is no object or no list where it should be."""
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"an answer of another form: {error}") from error


def counted(value: object) -> int:
    """Return a count that an endpoint gives, 0 for what is none."""
    return value if isinstance(value, int) and value > 0 else 0


def in_words(request: Request) -> str:
    """Return the last message with its schema told in words."""
    return (
        f"{request.messages[-1].content}\n\nAnswer with one JSON value and nothing else. It must "
        f"follow this JSON schema:\n{request.schema}"
    )
