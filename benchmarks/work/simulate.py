"""10,000 tasks on 1,000 GPUs, on paper: how long, for how many GPU hours, and what breaks first.

    python -m benchmarks.work.simulate      # the table of docs/workers.md, some minutes of one core

Events of searches, authors, GPUs and the database, with the times below. A search works as `kb evolve
--workers` does: a preparation first; then, step by step, ideas and a source for each (one after the other,
or so many at once), all judged by any workers, and the next step. A worker that holds the judge of another
task makes it anew. What `kb.database.writing` guards goes through one lock of the database; work under
leases does not.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass

TASKS, GPUS = 10_000, 1_000
CANDIDATES, WIDTH = 60, 4  # of a search; of one step of it
WRITE = 20.0  # seconds of a model for one source, or for the ideas of a step
JUDGE = 12.0  # seconds of a GPU for one candidate: compile, check, time
PREPARE = 40.0  # seconds of a GPU for a task: reference, answers, baselines
LOCKED = 0.004  # seconds of the one writer's lock for one addition to a graph
ADDITIONS = 2.5  # such a candidate: a node, its outcome, a share of the ideas
NOBODY = -1


@dataclass
class Gpu:
    warm: int = NOBODY
    busy: float = 0.0
    preparing: float = 0.0


class Fleet:
    """Searches on GPUs.

    Args:
        searches: how many there are at a time.
        writers: sources that one search has written at once.
        patience: seconds that work waits for a worker that holds its judge.
        reserve: it goes on waiting while such a worker takes work of its search.
    """

    def __init__(self, searches: int, writers: int, patience: float, *, reserve: bool) -> None:
        self.reserve = reserve
        self.searches, self.writers, self.patience = searches, writers, patience
        self.gpus = [Gpu() for _ in range(GPUS)]
        self.idle: dict[int, list[int]] = {NOBODY: list(range(GPUS))}  # by the judge they hold
        self.waiting: dict[int, deque[float]] = defaultdict(deque)  # when each piece was put
        self.ripe: list[tuple[float, int]] = []  # when a search's work is anybody's
        self.taken: dict[int, float] = {}  # when a worker last took work of a search
        self.left: dict[int, int] = {}
        self.out: dict[int, int] = {}
        self.events: list[tuple[float, int, str, int, int]] = []
        self.number = self.started = 0
        self.lock_free = self.lock_busy = 0.0

    def push(self, at: float, what: str, search: int, gpu: int = NOBODY) -> None:
        self.number += 1
        heapq.heappush(self.events, (at, self.number, what, search, gpu))

    def begin(self, now: float) -> None:
        if self.started < TASKS:
            self.left[self.started], self.out[self.started] = CANDIDATES, 1
            self.put(now, self.started, old=True)
            self.started += 1

    def put(self, now: float, search: int, *, old: bool = False) -> None:
        for warm in (search, NOBODY):
            if self.idle.get(warm):
                self.judge(now, search, self.idle[warm].pop())
                return
        self.waiting[search].append(now)
        heapq.heappush(self.ripe, (now if old else now + self.patience, search))
        self.push(now if old else now + self.patience, "old", search)

    def judge(self, now: float, search: int, gpu: int) -> None:
        one, first = self.gpus[gpu], self.left[search] == CANDIDATES and self.out[search] == 1
        cold = PREPARE if one.warm != search else 0.0
        one.warm = search
        self.taken[search] = now
        took = cold if first else cold + JUDGE
        one.busy += took
        one.preparing += cold
        # Whoever comes to the lock waits for those before.
        self.lock_free = max(self.lock_free, now) + LOCKED * ADDITIONS
        self.lock_busy += LOCKED * ADDITIONS
        self.push(max(self.lock_free, now + took), "judged", search, gpu)

    def oldest(self, now: float, *, idle: bool) -> int | None:
        """Take the oldest work that has waited for long enough."""
        while self.ripe and self.ripe[0][0] <= now + 1e-9:
            _, search = heapq.heappop(self.ripe)
            if not self.waiting[search]:
                continue
            # A search that is being served waits for who serves it, unless somebody idles.
            again = self.taken.get(search, -1e9) + self.patience
            if self.reserve and not idle and again > now + 1e-6:
                heapq.heappush(self.ripe, (again, search))
                continue
            self.waiting[search].popleft()
            return search
        return None

    def free(self, now: float, gpu: int) -> None:
        mine = self.gpus[gpu].warm
        if self.waiting[mine]:
            self.waiting[mine].popleft()
            self.judge(now, mine, gpu)
        elif (search := self.oldest(now, idle=False)) is not None:
            self.judge(now, search, gpu)
        else:
            self.idle.setdefault(mine, []).append(gpu)

    def grown_old(self, now: float) -> None:
        somebody = next((warm for warm, gpus in self.idle.items() if gpus), None)
        if somebody is None:
            self.idle = {}
        elif (search := self.oldest(now, idle=True)) is not None:
            self.judge(now, search, self.idle[somebody].pop())

    def judged(self, now: float, search: int) -> None:
        first = self.left[search] == CANDIDATES and self.out[search] == 1
        self.out[search] -= 1
        if not first:
            self.left[search] -= 1
        if self.out[search] == 0 and self.left[search] > 0:
            self.push(now + WRITE * (1 + -(-WIDTH // self.writers)), "written", search)
        elif self.out[search] == 0:
            self.begin(now)

    def run(self) -> tuple[float, float, float, float]:
        """Return the days, the GPUs' share of time at work, of that preparing, and the lock's share."""
        for _ in range(self.searches):
            self.begin(0.0)
        now = 0.0
        while self.events:
            now, _, what, search, gpu = heapq.heappop(self.events)
            if what == "written":
                self.out[search] = min(WIDTH, self.left[search])
                for _ in range(self.out[search]):
                    self.put(now, search)
            elif what == "old":
                self.grown_old(now)
            else:
                self.judged(now, search)
                self.free(now, gpu)
        assert not any(self.left.values())
        busy = sum(one.busy for one in self.gpus)
        preparing = sum(one.preparing for one in self.gpus)
        return now / 86_400, busy / now / GPUS, preparing / busy, self.lock_busy / now


def main() -> None:
    print(f"{TASKS:,} tasks of {CANDIDATES} candidates on {GPUS:,} GPUs; {JUDGE:g} s a candidate, "
          f"{PREPARE:g} s a task's judge, {WRITE:g} s a source")  # fmt: skip
    print("searches | written at once | patience, s | hours | GPUs busy | of that preparing | "
          "GPU hours | candidates a second | lock busy | connections")  # fmt: skip
    for searches, writers, patience in (
        (250, 1, 0), (1_000, 4, 0), (2_000, 1, 0),
        (250, 1, 30), (1_000, 1, 30), (1_000, 4, 30), (2_000, 1, 30), (2_000, 4, 30), (4_000, 4, 30), (2_000, 4, 120),
    ):  # fmt: skip
        days, busy, preparing, lock = Fleet(searches, writers, patience, reserve=patience > 0).run()
        print(
            f"{searches:,} | {writers} | {patience} | {24 * days:.1f} | {busy:.0%} | {preparing:.0%} | "
            f"{24 * days * GPUS:,.0f} | {TASKS * CANDIDATES / days / 86_400:.0f} | {lock:.0%} | "
            f"{GPUS + 3 * searches:,}",
            flush=True,
        )


if __name__ == "__main__":
    main()
