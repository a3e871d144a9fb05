"""Prompts under leases: a search asks through its database, and workers that hold a model answer.

As with candidates, every decision is one transaction by the database's clock, and a lease carries a token:
a prompt may be asked twice, where a worker falls silent, and is recorded once.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    Engine,
    Float,
    Index,
    Integer,
    String,
    Table,
    Text,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kb.database import Base, DatabaseClock, claiming, create_tables, outlast, reading
from kb.errors import KbError, ModelError
from synth.models import Model, Reply, Request
from synth.models.waiting import LOOK_SECONDS, Waiting, finish

T = TypeVar("T")
_NOW = DatabaseClock()
_IDLE = 0.2  # seconds between looks for a prompt
_PATIENCE = 20.0  # seconds before who waits says that nobody answers
_UNREADABLE = "expected a prompt of the worker's version of kb, found one of another: install the same version on both sides"
PROMPTS = Table(
    "work_prompts",
    Base.metadata,
    Column("key", String, primary_key=True),  # `synth.models.Request.key`
    Column("model", String, nullable=False),  # that is to answer
    Column("request", Text, nullable=False),
    Column("state", String, nullable=False),  # waiting | leased | done | failed
    Column("token", Integer, nullable=False, default=0),  # how often it was leased
    Column("worker", String),
    Column("until", Float),  # end of the lease, by the database's clock
    Column("reply", Text),  # JSON
    Column("reason", Text),  # why it failed
    Column("put", Float, nullable=False),
    Index("work_prompts_waiting", "state", "model", "put"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLease:
    """A prompt that one worker has; only its latest claim, by the token, can be acted on."""

    request: Request
    token: int
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptState:
    """Where a prompt stands.

    Attributes:
        reply: where it is answered.
        reason: why it failed, where it did.
    """

    state: str
    reply: Reply | None = None
    reason: str = ""


class PromptQueue:
    """The prompts of one database.

    Args:
        lease: seconds that a worker may be silent.
    """

    def __init__(self, engine: Engine, *, lease: float = 60.0) -> None:
        self.engine = engine
        self.lease = lease
        create_tables(engine)

    def put(self, request: Request) -> None:
        """Have a prompt answered, unless it is there already; one that failed is tried again."""
        key = request.key()
        row = {"key": key, "model": request.model, "request": request.to_json()}

        def write(session: Session) -> None:
            state = session.scalar(select(PROMPTS.c.state).where(PROMPTS.c.key == key))
            if state is None:
                session.execute(insert(PROMPTS).values(**row, state="waiting", token=0, put=_NOW))
            elif state == "failed":
                again = PROMPTS.c.key == key, PROMPTS.c.state == "failed"
                session.execute(update(PROMPTS).where(*again).values(state="waiting", reason=None))

        try:
            self._write(write)
        except IntegrityError:
            return  # another search asked the same at this moment

    def look(self, key: str) -> PromptState | None:
        """Return where a prompt stands, None where it is not there; one whose lease ran out waits."""
        over = ((PROMPTS.c.state == "leased") & (PROMPTS.c.until < _NOW)).label("over")
        query = select(PROMPTS, over).where(PROMPTS.c.key == key)

        def read() -> PromptState | None:
            with reading(self.engine) as session:
                row = session.execute(query).one_or_none()
            if row is None:
                return None
            reply = None if row.reply is None else Reply(**json.loads(row.reply))
            state = "waiting" if row.over else row.state
            return PromptState(state=state, reply=reply, reason=row.reason or "")

        return outlast(self.engine, read)

    def claim(self, worker: str, models: Sequence[str]) -> PromptLease | None:
        """Return the oldest prompt for one of `models` under a lease, None where there is none.

        Prompts whose lease ran out wait again. One that this version cannot read fails.
        """
        free = or_(
            PROMPTS.c.state == "waiting", (PROMPTS.c.state == "leased") & (PROMPTS.c.until < _NOW)
        )
        # A claim whose answer was lost with the connection is this worker's: it has one at a time.
        mine = (PROMPTS.c.state == "leased") & (PROMPTS.c.worker == worker)
        query = (
            select(PROMPTS.c.key, PROMPTS.c.request, PROMPTS.c.token)
            .where(PROMPTS.c.model.in_(models), or_(free, mine))
            .order_by(PROMPTS.c.put)
            .limit(1)
            .with_for_update(skip_locked=True)
        )

        def write(session: Session) -> PromptLease | None:
            while (row := session.execute(query).one_or_none()) is not None:
                this = update(PROMPTS).where(PROMPTS.c.key == row.key)
                try:
                    request = Request.from_json(row.request)
                except (ValueError, TypeError, KeyError, AttributeError):
                    session.execute(this.values(state="failed", reason=_UNREADABLE))
                    continue
                values = {"state": "leased", "worker": worker, "token": row.token + 1}
                session.execute(this.values(**values, until=_NOW + self.lease))
                return PromptLease(request=request, token=row.token + 1, worker=worker)
            return None

        return self._write(write)

    def renew(self, lease: PromptLease) -> bool:
        """Give a lease its full time again; False where it is another worker's by now."""
        return self._change(lease, {"until": _NOW + self.lease})

    def finish(self, lease: PromptLease, reply: Reply) -> bool:
        """Record the reply and end the lease; False, and nothing recorded, where the lease is gone."""
        text = json.dumps(asdict(reply), sort_keys=True)
        return self._change(lease, {"state": "done", "reply": text}, again="done")

    def fail(self, lease: PromptLease, reason: str) -> bool:
        """End the lease and the prompt: the model refuses it. False where the lease is gone."""
        return self._change(lease, {"state": "failed", "reason": reason}, again="failed")

    def give_back(self, lease: PromptLease) -> bool:
        """End the lease, and have another worker answer; False where it is gone."""
        return self._change(lease, {"state": "waiting", "worker": None})

    def _change(self, lease: PromptLease, values: dict[str, Any], again: str = "") -> bool:
        """Change a prompt where the lease holds, or did so in an attempt whose end was not known."""
        mine = (
            PROMPTS.c.key == lease.request.key(),
            PROMPTS.c.token == lease.token,
            PROMPTS.c.worker == lease.worker,
        )
        held = update(PROMPTS).where(*mine, PROMPTS.c.state == "leased").values(**values)

        def write(session: Session) -> bool:
            if session.execute(held.returning(PROMPTS.c.key)).first() is not None:
                return True
            return bool(again) and session.scalar(select(PROMPTS.c.state).where(*mine)) == again

        return self._write(write)

    def _write(self, write: Callable[[Session], T]) -> T:
        def once() -> T:
            with claiming(self.engine) as session:
                return write(session)

        return outlast(self.engine, once)


class QueuedModel:
    """A model that answers elsewhere: whoever runs `kb worker --prompts` on the same database.

    Args:
        name: of the model; only workers that hold it answer.
        say: is told what the user should know while it waits.
    """

    def __init__(self, queue: PromptQueue, name: str, *, say: Callable[[str], None]) -> None:
        self._queue = queue
        self._name = name
        self._say = say

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    def reply(self, request: Request) -> Reply:
        """Return what `ask` does, and wait for it."""
        return finish(self.ask(request))

    def ask(self, request: Request) -> Waiting[Reply]:
        """Put a prompt there; yield as long as nobody has answered, then return the answer.

        Raises:
            ModelError: the model of the worker cannot be reached or refuses it.
        """
        self._queue.put(request)
        key, end = request.key(), time.monotonic() + _PATIENCE
        while True:
            found = self._queue.look(key)
            if found is not None and found.reply is not None:
                return found.reply
            if found is not None and found.state == "failed":
                raise ModelError(found.reason)
            if found is not None and found.state == "waiting" and time.monotonic() > end:
                end = float("inf")
                self._say(
                    f"no worker answers prompts to {self._name}: run KB_MODEL={self._name} "
                    "kb worker --prompts with the same database, where the model can be reached"
                )
            yield


class PromptWorker:
    """Answers the prompts of one database with one model, one after the other.

    Args:
        say: is told what goes on, a line at a time.
    """

    def __init__(self, queue: PromptQueue, model: Model, *, say: Callable[[str], None]) -> None:
        self.name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self.answered = self.failed = self.lost = self.given_back = 0
        self._queue = queue
        self._model = model
        self._say = say
        self._stopping = False

    def stop(self) -> None:
        """Have `run` return soon; the prompt at hand is given back."""
        self._stopping = True

    def run(self, *, once: bool = False) -> None:
        """Answer until told to stop.

        Args:
            once: return when no prompt is left.
        """
        while not self._stopping:
            lease = self._queue.claim(self.name, [self._model.name])
            if lease is not None:
                self._answer(lease)
            elif once:
                return
            else:
                time.sleep(_IDLE)

    def _answer(self, lease: PromptLease) -> None:
        asked, last = _Asked(self._model, lease.request), time.monotonic()
        while asked.is_alive():
            if self._stopping:
                self.given_back += self._queue.give_back(lease)
                return
            if time.monotonic() - last > self._queue.lease / 4:
                last = time.monotonic()
                if not self._queue.renew(lease):
                    self._told(lease, False, "answered")
                    return
            asked.join(LOOK_SECONDS)
        if asked.reply is not None:
            self._told(lease, self._queue.finish(lease, asked.reply), "answered")
        elif isinstance(asked.error, KbError):
            self._told(lease, self._queue.fail(lease, str(asked.error)), "failed")
        else:
            assert asked.error is not None
            self._queue.give_back(lease)
            raise asked.error

    def _told(self, lease: PromptLease, held: bool, what: str) -> None:
        self.answered += held and what == "answered"
        self.failed += held and what == "failed"
        self.lost += not held
        key = lease.request.key()[:12]
        self._say(f"prompt {key}: {what if held else 'its lease ran out, the answer is dropped'}")


class _Asked(threading.Thread):
    """A request under way, beside which its lease is renewed; the process does not wait for it at its end."""

    def __init__(self, model: Model, request: Request) -> None:
        super().__init__(daemon=True)
        self._model, self._request = model, request
        self.reply: Reply | None = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.reply = self._model.reply(self._request)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self.error = error
