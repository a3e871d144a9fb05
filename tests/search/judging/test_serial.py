from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from search.finding import Look
from search.judging import Looking
from search.judging.serial import serial
from search.judging.synthetic import Synthetic


class Counting(Synthetic):
    def __init__(self) -> None:
        super().__init__()
        self.busy = threading.Lock()

    def judge(self, source, *, thorough=False):
        assert self.busy.acquire(blocking=False), "two at once"
        threading.Event().wait(0.001)
        self.busy.release()
        return super().judge(source)


class Seeing(Counting):
    def look(self, source):
        assert self.busy.acquire(blocking=False), "it judges and looks at once"
        self.busy.release()
        return Look(notes=(source,))


def test_several_threads_are_served_one_after_the_other():
    judge = serial(Seeing())
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(judge.judge, map(str, range(40))))
        looks = list(threads.map(judge.look, map(str, range(40))))
    assert outcomes == [Synthetic().judge(str(number)) for number in range(40)]
    assert [look.notes for look in looks] == [(str(number),) for number in range(40)]


def test_it_looks_closer_only_where_its_judge_does():
    assert isinstance(serial(Seeing()), Looking)
    assert not isinstance(serial(Counting()), Looking)
