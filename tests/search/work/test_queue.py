"""What leases promise, on each database that `kb` supports."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from crew import CONTEXT, answer, job
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Engine, delete, func, select, update

from kb.database import claiming, reading
from search.judging.spool.job import Failure, Job
from search.work.queue import (
    MOST_DEATHS,
    MOST_EXPIRIES,
    UNREADABLE,
    Claimant,
    Lease,
    WorkQueue,
)
from search.work.rows import target_hash
from search.work.tables import BENCHES, RESULTS, TARGETS, WORK

TARGET = target_hash(job(None))


@pytest.fixture
def queue(engine: Engine) -> WorkQueue:
    return WorkQueue(engine)


def who(name: str = "a", context: str = CONTEXT, warm: str = "") -> Claimant:
    return Claimant(name=name, context=context, targets=[TARGET], warm=warm)


def claimed(queue: WorkQueue, name: str = "a") -> Lease:
    lease = queue.claim(who(name))
    assert lease is not None
    return lease


def serve(queue: WorkQueue, one: Job, name: str) -> None:
    """Have a worker do a piece of work: it holds the judge of it."""
    queue.put(one)
    lease = claimed(queue, name)
    assert queue.finish(lease, answer(lease.job))


def finish(queue: WorkQueue) -> None:
    lease = claimed(queue)
    assert queue.finish(lease, answer(lease.job))


def run_out(queue: WorkQueue) -> None:
    """Let every lease end now, as if its worker had been silent."""
    with claiming(queue.engine) as session:
        session.execute(update(WORK).values(until=0.0).where(WORK.c.state == "leased"))


def recorded(queue: WorkQueue) -> int:
    with reading(queue.engine) as session:
        return session.scalar(select(func.count()).select_from(RESULTS)) or 0


def test_work_comes_back_as_it_was_put_and_its_answer_as_it_was_given(queue: WorkQueue) -> None:
    asked = [
        job(None),
        job("source ☃"),
        job("source ☃", thorough=True),
        job("limited", limits={"compile": False}),
    ]
    for one in asked:
        queue.put(one)
    for one in asked:
        lease = claimed(queue)
        assert lease.job.name == one.name
        assert lease.job.source == one.source
        assert queue.finish(lease, answer(one))
        state = queue.look([one.name])[one.name]
        assert (state.state, state.answer) == ("done", answer(one))
    assert queue.claim(who()) is None
    assert queue.look(["nothing"]) == {}


def test_what_is_put_twice_is_done_once(queue: WorkQueue) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(queue.put, [job(f"source {n % 4}") for n in range(16)]))
    assert queue.tally().states == {"waiting": 4}
    lease = claimed(queue)
    queue.put(lease.job)
    assert queue.finish(lease, answer(lease.job))
    queue.put(lease.job)
    assert queue.tally().states == {"waiting": 3, "done": 1}


@pytest.mark.slow
def test_no_two_workers_get_the_same_work(queue: WorkQueue) -> None:
    for number in range(60):
        queue.put(job(f"source {number}"))

    def drain(name: str) -> list[str]:
        done = []
        while (lease := queue.claim(who(name))) is not None:
            done.append(lease.job.name)
            assert queue.finish(lease, answer(lease.job))
        return done

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(drain, "abcdefgh"))
    names = [name for part in done for name in part]
    assert len(names) == len(set(names)) == 60
    tally = queue.tally()
    assert (tally.states, tally.results) == ({"done": 60}, 60)


def test_a_worker_that_was_thought_dead_records_nothing(queue: WorkQueue) -> None:
    queue.put(job("source"))
    old = claimed(queue, "old")
    assert queue.claim(who("new")) is None
    run_out(queue)
    new = claimed(queue, "new")
    assert new.token > old.token
    assert not queue.renew(old)
    assert not queue.finish(old, answer(old.job))
    assert not queue.give_back(old, died="late")
    assert not queue.fail(old, Failure(kind="TaskError", reason="late"))
    assert queue.look([new.job.name])[new.job.name].state == "leased"
    assert recorded(queue) == 0
    assert queue.finish(new, answer(new.job))
    assert not queue.finish(old, answer(old.job))
    assert recorded(queue) == 1


def test_a_lease_that_is_renewed_is_not_taken(queue: WorkQueue) -> None:
    queue.put(job("source"))
    lease = claimed(queue)
    run_out(queue)
    assert queue.renew(lease)
    assert queue.claim(who("b")) is None
    assert queue.finish(lease, answer(lease.job))


def test_an_answer_whose_receipt_was_lost_can_be_given_again(queue: WorkQueue) -> None:
    queue.put(job("source"))
    lease = claimed(queue)
    assert queue.finish(lease, answer(lease.job))
    assert queue.finish(lease, answer(lease.job))
    assert recorded(queue) == 1


def test_a_claim_whose_receipt_was_lost_is_the_same_workers_again(queue: WorkQueue) -> None:
    queue.put(job("first"))
    queue.put(job("second"))
    lost, again = claimed(queue), claimed(queue)
    assert again.number == lost.number
    assert not queue.finish(lost, answer(lost.job))
    assert queue.finish(again, answer(again.job))


def test_work_given_back_waits_again_and_costs_it_nothing(queue: WorkQueue) -> None:
    queue.put(job("source"))
    for _ in range(MOST_DEATHS + MOST_EXPIRIES):
        assert queue.give_back(claimed(queue))
    finish(queue)


def test_work_that_ends_judges_or_workers_is_not_tried_for_ever(queue: WorkQueue) -> None:
    deadly, silencing = job("deadly"), job("silencing", seed=1)
    queue.put(deadly)
    for number in range(MOST_DEATHS):
        assert queue.give_back(claimed(queue, f"w{number}"), died="SIGSEGV ended \0 it")
    found = queue.look([deadly.name])[deadly.name]
    assert (found.state, found.failure.kind) == ("failed", "Died")
    assert "SIGSEGV" in found.failure.reason
    queue.put(silencing)
    for number in range(MOST_EXPIRIES):
        claimed(queue, f"w{number}")
        run_out(queue)
    assert queue.claim(who()) is None
    found = queue.look([silencing.name])[silencing.name]
    assert "5 workers fell silent" in found.failure.reason
    queue.put(deadly)  # a new run asks again: perhaps it is mended
    finish(queue)


def test_work_is_taken_by_workers_of_its_target_and_context_alone(queue: WorkQueue) -> None:
    queue.put(job("here"))
    queue.put(job(None, seed=1))
    assert queue.claim(Claimant(name="g", context=CONTEXT, targets=["another"])) is None
    other = f"{CONTEXT} / group 2"
    lease = queue.claim(who("b", other))
    assert lease is not None
    assert lease.job.source is None  # a preparation is anybody's of the target
    assert queue.claim(who("c", other)) is None
    assert claimed(queue).job.source == "here"


def test_results_of_two_contexts_stand_beside_each_other(queue: WorkQueue) -> None:
    contexts = [CONTEXT, f"{CONTEXT} / group 2"]
    for context in contexts:
        queue.put(job("source", context))
        lease = queue.claim(who("a", context))
        assert lease is not None
        assert queue.finish(lease, answer(lease.job, context))
    assert recorded(queue) == 2
    names = [job("source", context).name for context in contexts]
    found = queue.look(names)
    assert [found[name].answer.context for name in names] == contexts


def test_work_for_the_judge_at_hand_comes_first_then_preparations(queue: WorkQueue) -> None:
    serve(queue, job("before", seed=2), "b")
    for one in (job("other", seed=2), job(None, seed=3), job("mine", seed=4)):
        queue.put(one)
    warm = job("mine", seed=4).bench
    order = []
    while (lease := queue.claim(who("a", warm=warm))) is not None:
        order.append(lease.job.source)
        assert queue.finish(lease, answer(lease.job))
    assert order == ["mine", None]
    hasty = WorkQueue(queue.engine, patience=0)
    assert hasty.claim(who("b", warm=warm)).job.source == "other"


def test_what_has_waited_for_long_has_its_turn_and_a_worker_without_a_judge_takes_it_at_once(
    queue: WorkQueue,
) -> None:
    serve(queue, job("before", seed=2), "b")
    for one in (job("other", seed=2), job("mine", seed=4), job("mine too", seed=4)):
        queue.put(one)
    warm = job("mine", seed=4).bench
    generous = Claimant(name="a", context=CONTEXT, targets=[TARGET], warm=warm, yields=True)
    assert queue.claim(generous).job.source == "mine"  # the other has not waited for long
    assert queue.claim(who("b")).job.source == "other"
    queue.give_back(queue.claim(who("b")))
    hasty = WorkQueue(queue.engine, patience=0)
    eager = Claimant(name="c", context=CONTEXT, targets=[TARGET], warm=warm, yields=True)
    assert hasty.claim(eager).job.source == "other"


def test_work_of_another_version_fails_in_a_line_and_ends_no_worker(queue: WorkQueue) -> None:
    for one in (job("new", seed=5), job("known", seed=6)):
        queue.put(one)
    new = job("new", seed=5)
    of_new = BENCHES.c.bench == new.bench
    with claiming(queue.engine) as session:
        body = session.scalar(select(BENCHES.c.body).where(of_new))
        other = {**json.loads(body), "of a later version": 1}
        session.execute(update(BENCHES).values(body=json.dumps(other)).where(of_new))
    lease = claimed(queue)
    assert lease.job.source == "known"
    assert queue.give_back(lease)
    failure = queue.look([new.name])[new.name].failure
    assert failure is not None
    assert failure.reason == UNREADABLE
    with claiming(queue.engine) as session:
        session.execute(update(TARGETS).values(body='{"kind": "of a later version"}'))
    assert queue.targets([]) == {TARGET: None}


def test_an_answer_of_another_version_is_a_line_for_the_search(queue: WorkQueue) -> None:
    one = job("known")
    serve(queue, one, "a")
    with claiming(queue.engine) as session:
        body = json.loads(session.scalar(select(RESULTS.c.answer)) or "")
        other = {**body, "outcome": {**body["outcome"], "of a later version": 1}}
        session.execute(update(RESULTS).values(answer=json.dumps(other)))
    failure = queue.look([one.name])[one.name].failure
    assert failure is not None
    assert failure.reason.startswith("expected an answer of this version of kb")


def test_the_first_work_for_a_judge_that_nobody_has_made_is_anybodys_at_once(
    queue: WorkQueue,
) -> None:
    serve(queue, job("mine", seed=4), "a")
    for one in (job("first", seed=5), job("second", seed=5)):
        queue.put(one)
    mine = job("mine", seed=4).bench
    assert queue.claim(who("a", warm=mine)).job.source == "first"
    assert queue.claim(who("b", warm=mine)) is None, "a holds that judge now"
    assert queue.claim(who("c")).job.source == "second"


def test_what_another_worker_is_serving_is_left_to_it_by_all_but_the_idle(queue: WorkQueue) -> None:
    hurried = WorkQueue(queue.engine, patience=1e-6)
    for one in (job("first", seed=2), job("second", seed=2), job("lonely", seed=3)):
        hurried.put(one)
    assert hurried.claim(who("a")).job.source == "first"
    warm = Claimant(name="b", context=CONTEXT, targets=[TARGET], warm="another")
    assert hurried.claim(warm).job.source == "lonely"
    busy = Claimant(name="c", context=CONTEXT, targets=[TARGET], warm="another")
    assert hurried.claim(busy) is None
    assert hurried.claim(replace(busy, idle=True)).job.source == "second"


class Protocol(RuleBasedStateMachine):
    """Workers that claim, fall silent, come back and answer in any order: nothing lost, nothing twice."""

    queue: WorkQueue

    @initialize()
    def clear(self) -> None:
        with claiming(self.queue.engine) as session:
            session.execute(delete(WORK))
            session.execute(delete(RESULTS))
        self.held: list[Lease] = []
        self.put: dict[str, Job] = {}
        self.latest: dict[str, int] = {}
        self.done: set[str] = set()
        self.failed: set[str] = set()

    @rule(number=st.integers(0, 4), what=st.booleans())
    def ask(self, number: int, what: bool) -> None:
        one = job(f"source {number}", thorough=what)
        self.queue.put(one)
        self.put[one.name] = one
        self.failed.discard(one.name)

    @rule(name=st.sampled_from("abc"))
    def claim(self, name: str) -> None:
        lease = self.queue.claim(who(name))
        waiting = self.put.keys() - self.done - self.failed
        if lease is None:
            return
        assert lease.job.name in waiting
        assert lease.token > self.latest.get(lease.job.name, 0)
        self.latest[lease.job.name] = lease.token
        self.held.append(lease)

    @rule()
    def silence(self) -> None:
        run_out(self.queue)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), what=st.sampled_from(["finish", "renew", "back", "died", "fail"]))
    def act(self, data: st.DataObject, what: str) -> None:
        lease = data.draw(st.sampled_from(self.held), label="lease")
        name, q = lease.job.name, self.queue
        before = q.look([name])[name].state
        if what == "finish":
            took = q.finish(lease, answer(lease.job))
            self.done |= {name} if took else set()
        elif what == "renew":
            took = q.renew(lease)
        elif what == "fail":
            took = q.fail(lease, Failure(kind="TaskError", reason="no"))
        else:
            took = q.give_back(lease, died="it ended" if what == "died" else "")
        if took and before == "leased":
            assert lease.token == self.latest[name]

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not self.put:
            return
        found = self.queue.look(list(self.put))
        assert found.keys() == self.put.keys()
        self.failed = {name for name, state in found.items() if state.state == "failed"}
        assert {name for name, state in found.items() if state.state == "done"} == self.done
        assert recorded(self.queue) == len(self.done)
        for name in self.done:
            assert found[name].answer == answer(self.put[name])


@pytest.mark.slow
def test_any_interleaving_of_workers_loses_nothing_and_records_nothing_twice(
    engine: Engine,
) -> None:
    class Bound(Protocol):
        queue = WorkQueue(engine)

    case = Bound.TestCase()
    case.settings = settings(
        max_examples=25,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    case.runTest()
