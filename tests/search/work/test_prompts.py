"""Prompts under leases, with worker processes that are killed, on each database that `kb` supports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from kb.database import claiming, reading
from kb.errors import ModelError
from search.work.prompts import PROMPTS, PromptLease, PromptQueue, PromptWorker, QueuedModel
from synth.models import Message, Reply, Request

ANSWERER = Path(__file__).with_name("answerer.py")


@pytest.fixture
def queue(engine: Engine) -> PromptQueue:
    return PromptQueue(engine)


def prompt(text: str, model: str = "m") -> Request:
    message = Message(role="user", content=text)
    return Request(messages=(message,), max_tokens=9, temperature=0.0, seed=1, model=model)


def reply(text: str) -> Reply:
    return Reply(text=text, model="m", tokens_in=1, tokens_out=1, seconds=0.0, finish="stop")


@contextmanager
def answerer(
    engine: Engine, seconds: float, lease: float = 60.0
) -> Iterator[subprocess.Popen[str]]:
    place = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    url = engine.url.render_as_string(hide_password=False)
    process = subprocess.Popen(
        [sys.executable, str(ANSWERER), url, str(seconds), str(lease)],
        env={**os.environ, **place},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(true: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() >= end:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.02)


def state(queue: PromptQueue, request: Request) -> str:
    found = queue.look(request.key())
    return "" if found is None else found.state


@pytest.mark.slow
def test_prompts_of_two_searches_are_answered_by_two_workers_each_once(
    engine: Engine, queue: PromptQueue
) -> None:
    asked = [prompt(f"question {number}") for number in range(12)]
    for one in (*asked, *asked):
        queue.put(one)
    with answerer(engine, 0.01) as left, answerer(engine, 0.01) as right:
        until(lambda: all(state(queue, one) == "done" for one in asked))
        for worker in (left, right):
            worker.send_signal(signal.SIGTERM)
        heard = "".join(worker.communicate(timeout=60)[0] for worker in (left, right))
    assert sorted(heard.split("\n")[:-1]) == sorted(one.messages[0].content for one in asked)
    said: list[str] = []
    model = QueuedModel(queue, "m", say=said.append)
    for one in asked:
        assert model.reply(one).text.endswith(one.messages[0].content)
    assert said == []


@pytest.mark.slow
def test_a_prompt_whose_worker_is_killed_is_anothers_and_a_late_answer_is_dropped(
    engine: Engine, queue: PromptQueue
) -> None:
    one = prompt("question")
    queue.put(one)
    with answerer(engine, 60, lease=1) as killed:
        until(lambda: state(queue, one) == "leased")
        killed.kill()
    late: list[PromptLease] = []
    until(lambda: late.extend(filter(None, [queue.claim("late", ["m"])])) or late)
    with claiming(engine) as session:  # as if that one had been silent
        session.execute(update(PROMPTS).values(until=0.0))
    with answerer(engine, 0.01):
        until(lambda: state(queue, one) == "done")
    assert not queue.finish(late[0], reply("late"))
    assert not queue.renew(late[0])
    assert queue.look(one.key()).reply.text.endswith("question")
    with reading(engine) as session:
        assert session.scalars(select(PROMPTS.c.token)).all() == [3]


def test_a_prompt_whose_worker_is_silent_waits_for_another(queue: PromptQueue) -> None:
    one = prompt("question")
    queue.put(one)
    lease = queue.claim("silent", ["m"])
    assert state(queue, one) == "leased"
    with claiming(queue.engine) as session:  # as if it had been silent for longer than its lease
        session.execute(update(PROMPTS).values(until=0.0))
    assert state(queue, one) == "waiting"
    assert queue.renew(lease)  # it was slow, and nobody had taken the prompt
    assert state(queue, one) == "leased"


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_gives_its_prompt_back_at_once(
    engine: Engine, queue: PromptQueue
) -> None:
    one = prompt("question")
    queue.put(one)
    with answerer(engine, 600) as worker:
        until(lambda: state(queue, one) == "leased")
        worker.send_signal(signal.SIGTERM)
        _, complaint = worker.communicate(timeout=60)
    assert worker.returncode == 0, complaint
    assert state(queue, one) == "waiting"


@pytest.mark.slow
def test_a_lease_is_renewed_while_a_model_answers(engine: Engine, queue: PromptQueue) -> None:
    one = prompt("question")
    queue.put(one)
    with answerer(engine, 4, lease=1.5):
        until(lambda: state(queue, one) == "leased")
        while state(queue, one) == "leased":
            assert queue.claim("another", ["m"]) is None
            time.sleep(0.05)
    assert queue.look(one.key()).reply.text.endswith("question")


def test_a_prompt_of_another_version_fails_and_ends_no_worker(queue: PromptQueue) -> None:
    one, other = prompt("question"), prompt("other")
    waiting = QueuedModel(queue, "m", say=print).ask(one)
    next(waiting)
    with claiming(queue.engine) as session:
        session.execute(update(PROMPTS).values(request='{"new": 1, "messages": []}'))
    queue.put(other)
    lease = queue.claim("a", ["m"])
    assert lease is not None
    assert lease.request == other
    with pytest.raises(ModelError, match="install the same version on both sides"):
        next(waiting)


def test_a_worker_answers_prompts_to_its_own_model_alone(queue: PromptQueue) -> None:
    queue.put(prompt("question", "another"))
    assert queue.claim("a", ["m"]) is None
    assert queue.claim("a", ["another"]) is not None


def test_what_a_model_refuses_is_refused_to_who_asked_and_tried_again_when_asked_again(
    queue: PromptQueue,
) -> None:
    class Refuses:
        name = "m"

        def reply(self, request: Request) -> Reply:
            raise ModelError("the key is wrong")

    one = prompt("question")
    queue.put(one)
    worker = PromptWorker(queue, Refuses(), say=lambda _: None)
    worker.run(once=True)
    assert (worker.answered, worker.failed) == (0, 1)
    assert queue.look(one.key()).reason == "the key is wrong"
    queue.put(one)
    assert state(queue, one) == "waiting"


def test_an_answer_whose_receipt_was_lost_can_be_given_again(queue: PromptQueue) -> None:
    queue.put(prompt("question"))
    lease = queue.claim("a", ["m"])
    assert queue.finish(lease, reply("yes"))
    assert queue.finish(lease, reply("yes"))
    assert queue.look(lease.request.key()).reply == reply("yes")
    assert not queue.finish(replace(lease, token=2), reply("no"))
