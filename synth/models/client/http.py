"""One endpoint behind an official client: asking again with patience, and plain words for faults.

The clients of OpenAI and Anthropic raise errors of the same names and shapes, so that one place
can decide what to do about them. Their own retries are off: they end where an answer begins to
stream, and do not say that they wait.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from importlib import import_module
from types import ModuleType
from typing import Any

from kb.errors import ConfigError, ModelError
from synth.models import Reply
from synth.models.client.keys import Key, find_key

LONGEST_WAIT = 120.0  # seconds that a server may ask for before a run stops instead
_FIRST_WAIT = 0.5
_AGAIN = (408, 409, 425, 429)  # and every 5xx
# What an endpoint may refuse, by the words that its message then holds.
OPTIONAL = {
    "response_format": ("response_format", "json_schema", "grammar", "schema", "output_config"),
    "stream_options": ("stream_options",),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    "temperature": ("temperature",),
    "seed": ("seed",),
}
INSTEAD = {
    "response_format": "asking for JSON in the prompt instead",
    "stream_options": "streaming without counts",
    "max_tokens": "sending max_completion_tokens instead",
    "temperature": "leaving it to the endpoint",
    "seed": "leaving it out, so replies may differ between runs",
}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How an endpoint is reached.

    Attributes:
        keys: names under which the environment or the keyring may hold its key.
        timeout_seconds: longest wait for one whole answer.
        retries: how often to ask again after a 429, a 5xx or a broken connection.
        say: told, once each, what the endpoint refuses, and each wait.
        heard: told the model and how many tokens of an answer have come so far.
        sleep: waits; a test does not.
    """

    url: str | None
    keys: tuple[str, ...]
    needs_key: bool
    timeout_seconds: float = 300.0
    retries: int = 3
    say: Say | None = None
    heard: Callable[[str, int], None] | None = None
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True, kw_only=True)
class PartialAnswer:
    """What came of an answer so far."""

    parts: list[str] = field(default_factory=list)
    pieces: int = 0  # deltas: a token each at most endpoints, thinking included
    model: str = ""
    finish: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    cost: float | None = None
    problem: str = ""  # what the endpoint says it failed at
    valid: bool = False  # something came that only such an endpoint sends

    @property
    def tokens(self) -> int:
        """Tokens of the reply, by the endpoint's count or by the pieces that came."""
        return max(self.tokens_out, self.pieces)


class Broken(Exception):
    """An answer ended before its end."""


class Wire:
    """Asks one endpoint, patiently.

    Args:
        sdk: the client's module, ``openai`` or ``anthropic``.
        name: the model's name at the endpoint.
    """

    def __init__(self, sdk: ModuleType, name: str, line: Connection) -> None:
        if line.url is not None and not line.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"model.base_url: expected an address that begins with http:// or https://, "
                f"found {line.url!r}"
            )
        self.name = name
        self.line = line
        self.refused: set[str] = set()
        self._sdk: Any = sdk
        self._broken = _transport_errors()
        self._key = Key()

    def key(self) -> Key:
        """Look the key up, once.

        Raises:
            ModelError: there is none where one is needed, or it cannot be sent.
        """
        if not self._key:
            self._key = find_key(self.line.keys)
        if not self._key and self.line.needs_key:
            raise ModelError(
                f"model {self.name!r}: expected a key in {' or '.join(self.line.keys)}, "
                "found none: set one, or name an endpoint without keys as model.base_url"
            )
        return self._key

    def ask(self, schema: bool, call: Callable[[PartialAnswer], None]) -> Reply:
        """Return what `call` hears, asking again where that may help.

        Args:
            schema: the request has a JSON schema, which may be refused.
            call: sends the request and writes down what comes.

        Raises:
            ModelError: the endpoint cannot be reached or refuses the request, or what answers is
                not such an endpoint.
        """
        lost = tries = 0
        started = time.perf_counter()
        while True:
            answer = PartialAnswer()
            # Another request may learn meanwhile what this one has to leave out.
            sent = frozenset(self.refused)
            try:
                call(answer)
                if not answer.valid:
                    raise self._no_chat(lost)
                seconds = time.perf_counter() - started
                return replace(self._reply(answer, seconds), lost=lost)
            except (Broken, self._sdk.APIError, ValueError, *self._broken) as error:
                fault: Exception = error
            if isinstance(fault, ValueError) and not answer.valid:
                raise self._no_chat(lost) from fault
            if self._is_status(fault):
                if self._adapt(fault, schema, sent):
                    continue
                if _filtered(fault):
                    seconds = time.perf_counter() - started
                    empty = PartialAnswer(finish="content_filter")
                    return replace(self._reply(empty, seconds), lost=lost)
            lost += answer.tokens
            wait = self._wait(fault, tries)
            if wait is None:
                explained = self._explain(fault, answer)
                explained.lost = lost
                raise explained from fault
            tries += 1
            self._tell(
                f"{self._why(fault, answer)}: asking again in {wait:.1f} s "
                f"({tries} of {self.line.retries})"
            )
            self.line.sleep(wait)

    def listen(self, answer: PartialAnswer, started: float) -> None:
        """Tell how much has come, and stop an answer that takes too long.

        Raises:
            Broken: it has taken longer than the user allows.
        """
        answer.pieces += 1
        if self.line.heard is not None:
            self.line.heard(self.name, answer.pieces)
        if time.perf_counter() - started > self.line.timeout_seconds:
            raise Broken("slow")

    def _tell(self, text: str) -> None:
        if self.line.say is not None:
            self.line.say(self._key.hide(f"model {self.name}: {text}"))

    def _reply(self, answer: PartialAnswer, seconds: float) -> Reply:
        text = self._key.hide("".join(answer.parts))
        return Reply(
            text=text,
            model=answer.model or self.name,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            seconds=seconds,
            finish=answer.finish or ("stop" if text else "empty"),
            cached=answer.cached,
            cost=answer.cost,
        )

    def _is_status(self, error: Exception) -> bool:
        """Say whether a request was refused; an answer may also fail after it began, with a 200."""
        return isinstance(error, self._sdk.APIStatusError) and error.status_code >= 400

    def _adapt(self, error: Any, schema: bool, sent: frozenset[str]) -> bool:
        """Note the parameter that the endpoint refused; False where it is none that can go.

        Args:
            sent: what the request was sent without.
        """
        if error.status_code not in (400, 404, 415, 422, 500, 501) or _too_long(error):
            return False
        text = str(error.message).lower()
        for parameter, words in OPTIONAL.items():
            if parameter in sent or (parameter == "response_format" and not schema):
                continue
            if any(word in text for word in words):
                if parameter not in self.refused:  # else it was told by a request beside this one
                    self.refused.add(parameter)
                    self._tell(
                        f"the endpoint refuses {parameter} ({_short(str(error.message), 80)}): "
                        f"{INSTEAD[parameter]}"
                    )
                return True
        return False

    def _wait(self, error: Any, tries: int) -> float | None:
        """Return how long to wait before asking again, None where that is of no use."""
        # A timeout is the user's limit: asking again would pay for the same wait.
        if tries >= self.line.retries or self._slow(error):
            return None
        if not self._is_status(error):
            return _backoff(tries)
        if error.status_code < 500 and error.status_code not in _AGAIN:
            return None
        if "quota" in str(error.message).lower() and error.status_code == 429:
            return None  # an empty account does not fill within a minute
        hint = asked_wait(error.response.headers, time.time())
        if hint is None:
            return _backoff(tries)
        return None if hint > LONGEST_WAIT else hint

    def _why(self, error: Any, answer: PartialAnswer) -> str:
        if self._is_status(error):
            return f"it answered {error.status_code}"
        if answer.pieces:
            return f"the answer broke off after {answer.pieces} tokens"
        return "the connection failed"

    def _slow(self, error: BaseException) -> bool:
        names = {kind.__name__ for kind in type(error).__mro__}
        return str(error) == "slow" or "TimeoutException" in names or (
            isinstance(error, self._sdk.APITimeoutError)
        )  # fmt: skip

    def _explain(self, error: Exception, answer: PartialAnswer) -> ModelError:
        where = f"model {self.name!r} at {self.line.url or 'the default endpoint'}"
        come = answer.pieces
        if self._slow(error):
            after = f" ({come} tokens had come)" if come else ""
            return ModelError(
                f"{where}: no answer within {self.line.timeout_seconds:g} s{after}: raise "
                "model.timeout_seconds, or lower model.reply_tokens"
            )
        if self._is_status(error):
            return ModelError(f"{where}: {self._refusal(error)}")
        told: Any = error if isinstance(error, self._sdk.APIStatusError) else None
        problem = answer.problem if told is None else str(told.message)
        if problem:
            return ModelError(f"{where}: it gave up ({self._key.hide(_short(problem))})")
        if come:
            return ModelError(
                f"{where}: the answer broke off after {come} tokens, {self.line.retries + 1} "
                "times: is the server or a proxy ending connections?"
            )
        if isinstance(error, (self._sdk.APIConnectionError, Broken, *self._broken)):
            cause = self._key.hide(_short(str(error.__cause__ or error), 100))
            return ModelError(
                f"{where}: cannot connect ({cause}): is it running, and is model.base_url right?"
            )
        return ModelError(f"{where}: {self._key.hide(_short(str(error)))}")

    def _refusal(self, error: Any) -> str:
        said = self._key.hide(_short(str(error.message)))
        if error.status_code in (401, 403):
            # The body is left out: some endpoints repeat a part of the key in it.
            return (
                f"the key was refused ({error.status_code}): set "
                f"{self._key.source or self.line.keys[0]} to a valid one"
            )
        if _too_long(error):
            return (
                f"the prompt does not fit the model's context ({said}): lower model.context_tokens"
            )
        if error.status_code == 404:
            return (
                f"not found (404, {said}): check model.name, and whether model.base_url needs a "
                "trailing /v1"
            )
        if error.status_code == 429:
            hint = asked_wait(error.response.headers, time.time())
            later = f"wait {hint:.0f} s" if hint and hint > LONGEST_WAIT else "wait"
            return (
                f"still too many requests after {self.line.retries} retries (429, {said}): "
                f"{later}, or check the account's quota"
            )
        return f"it answered {error.status_code} ({said})"

    def _no_chat(self, lost: int) -> ModelError:
        error = ModelError(
            f"model {self.name!r} at {self.line.url or 'the default endpoint'}: expected a chat "
            "completion, found another answer: model.base_url usually ends in /v1"
        )
        error.lost = lost
        return error


def asked_wait(headers: Any, now: float) -> float | None:
    """Return the seconds that a server asks to wait: ``retry-after-ms``, or ``retry-after``.

    The latter is a number of seconds or a date (RFC 9110, section 10.2.3).
    """
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    given = headers.get("retry-after")
    if not given:
        return None
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now)
    except ValueError:
        return None


def _backoff(tries: int) -> float:
    """Double from try to try, and spread, so that several clients do not come back at once."""
    return float(min(_FIRST_WAIT * 2**tries, 30.0)) * (0.75 + 0.5 * random.random())


def _transport_errors() -> tuple[type[Exception], ...]:
    """Return what a connection that breaks mid-answer raises: the clients do not translate it."""
    found: list[type[Exception]] = []
    for name in ("httpx", "httpx2"):  # which one a client uses depends on its version
        try:
            found.append(import_module(name).TransportError)
        except ModuleNotFoundError:
            continue
    return tuple(found)


def _filtered(error: Any) -> bool:
    body = error.body if isinstance(error.body, dict) else {}
    body = body["error"] if isinstance(body.get("error"), dict) else body
    marks = f"{body.get('code')} {body.get('type')}".lower()
    return error.status_code in (400, 403) and (
        "content_filter" in marks or "content_policy" in marks
    )


def _too_long(error: Any) -> bool:
    body = error.body if isinstance(error.body, dict) else {}
    marks = f"{body.get('code')} {body.get('type')} {error.message}".lower()
    return error.status_code in (400, 413, 422, 500) and any(
        mark in marks
        for mark in (
            "context_length",
            "context_size",
            "context length",
            "context size",
            "context window",
            "too long",
        )
    )


def _short(text: str, width: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
