"""The asking side, against files as another machine's kb judge writes them."""

from __future__ import annotations

import json
import shutil
import threading
import time
from dataclasses import replace

import pytest
from office import RELU, RIGHT, WRONG, Office

from kb.errors import StoreError, TaskError, ToolchainError
from search.judging.limits import Prepared
from search.judging.spool import client as module
from search.judging.spool.folder import Folder, entries, seal, unseal
from search.judging.spool.job import Failure, JobAnswer, device_of, read_job
from search.outcome import Passed, Ratio
from search.outcome import Wrong as WrongAnswer

HERE = "cpu-2 / a processor / 2.13"
PREPARED = Prepared(
    baselines={"eager": 1e-3}, compile_error=None, dropped=(), sandbox=(), graph=None, work=None
)
FAST = Passed(
    seconds=1e-4,
    samples=6,
    speedup={"eager": Ratio(ratio=10.0, low=9.0, high=11.0)},
    max_error=0.0,
    allowed_error=1e-6,
)


class Far(threading.Thread):
    """The other machine: answers jobs from another disk, to which files are copied and from which."""

    def __init__(self, office, root) -> None:
        super().__init__(daemon=True)
        self.near, self.far = office.folder, Folder(root).make()
        self.context = HERE
        self.deliver = shutil.copyfile
        self.answered: list[str] = []
        self.ended = False

    def run(self) -> None:
        while not self.ended:
            for entry in entries(self.near.jobs):
                if not self.near.outcome(entry.job).exists():
                    shutil.copyfile(entry.path, self.far.jobs / entry.path.name)
                    self.answer(entry.job)
            time.sleep(0.01)

    def answer(self, name: str) -> None:
        (entry,) = entries(self.far.jobs)
        job = read_job(unseal(entry.path.read_bytes(), "job"))
        claim = self.far.claim(entry, "far-1-a")
        head = {"job": job.name, "context": self.context, "facts": {"host": "far", "device": "box"}}
        self.far.answer(claim, self.judged(JobAnswer(**head), job).body())
        self.answered.append(name)
        self.deliver(self.far.outcome(name), self.near.outcome(name))

    def judged(self, answer, job):
        if job.source is None:
            return replace(answer, prepared=PREPARED)
        if "min=0.5" in job.source:
            return replace(answer, outcome=WrongAnswer(reason="half"))
        return replace(answer, outcome=FAST)


@pytest.fixture
def office(tmp_path):
    return Office(tmp_path)


@pytest.fixture
def far(office, tmp_path):
    made = Far(office, tmp_path / "other disk")
    yield made
    made.ended = True
    if made.is_alive():
        made.join(5)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.2)


def test_outcomes_come_from_the_other_side(office, far):
    far.start()
    spool = office.evaluator()
    assert spool.prepare() == PREPARED
    assert spool.context == HERE
    assert spool.judge(RIGHT) == FAST
    assert spool.judge(WRONG) == WrongAnswer(reason="half")
    assert spool.judge(RIGHT, thorough=True) == FAST
    assert [name.split("-")[0] for name in far.answered] == ["prepare", "judge", "judge", "confirm"]
    assert entries(office.folder.jobs) == []


def test_an_answer_that_is_there_is_taken_and_nothing_asked_again(office, far):
    far.start()
    office.evaluator().judge(RIGHT)
    far.ended = True
    far.join()
    again = office.evaluator()
    assert again.judge(RIGHT) == FAST
    assert len(far.answered) == 2
    assert entries(office.folder.jobs) == []


def test_what_is_expected_is_asked_without_waiting(office, far):
    far.start()
    spool = office.evaluator()
    spool.prepare()
    far.ended = True
    far.join()
    sources = [f"{RIGHT}# {n}\n" for n in range(4)]
    for source in sources:
        spool.expect(source)
    assert len(entries(office.folder.jobs)) == 4


@pytest.mark.parametrize("spoil", ["half", "empty", "changed", "of another job"])
def test_an_answer_that_is_not_whole_is_waited_for(office, far, spoil):
    """Copying takes time: the first look sees a part of the file, or something else."""

    def deliver(source, target):
        text = source.read_text()
        if spoil == "changed" and '"reason": "half"' in text:
            target.write_text(text.replace('"reason": "half"', '"reason": "none"'))
        elif spoil == "of another job":
            body = {**unseal(source.read_bytes(), "outcome"), "job": "judge-" + "0" * 32}
            target.write_text(seal("outcome", body))
        else:
            target.write_text("" if spoil == "empty" else text[: len(text) // 2])
        threading.Timer(0.4, shutil.copyfile, (source, target)).start()

    far.start()
    spool = office.evaluator()
    spool.prepare()
    far.deliver = deliver
    assert spool.judge(WRONG) == WrongAnswer(reason="half")
    told = [line for line in office.said if line.startswith("outcomes/judge-")]
    assert len(told) == 1
    assert "waiting for" in told[0]


def test_a_task_that_cannot_be_judged_there_is_the_users_to_mend(office, far):
    far.judged = lambda answer, job: replace(
        answer, failure=Failure(kind="TaskError", reason="reference.py: no")
    )
    far.start()
    with pytest.raises(TaskError, match=r"far at .*: reference\.py: no"):
        office.evaluator().prepare()


def test_what_failed_before_is_asked_again_by_a_new_run(office, far):
    asked = []

    def judged(answer, job):
        asked.append(job.name)
        if len(asked) == 1:
            return replace(answer, failure=Failure(kind="os._exit", reason="gone"))
        return replace(answer, prepared=PREPARED)

    far.judged = judged
    far.start()
    with pytest.raises(ToolchainError, match="gone"):
        office.evaluator().prepare()
    assert office.evaluator().prepare() == PREPARED
    assert len(asked) == 2


def test_another_judge_than_the_one_that_began_is_not_believed(office, far):
    far.start()
    spool = office.evaluator()
    spool.prepare()
    far.context = "cpu-9 / another / 3.0"
    with pytest.raises(ToolchainError, match=r"answered by cpu-9 / another / 3\.0"):
        spool.judge(RIGHT)
    assert not list(office.folder.outcomes.glob("judge-*"))


def test_a_run_whose_judge_was_replaced_ends_instead_of_waiting(office, far, impatient):
    far.start()
    spool = office.evaluator()
    spool.prepare()
    far.ended = True
    far.join()

    replaced = threading.Event()

    def beat():
        for count in range(100):
            if replaced.is_set():
                return
            body = {"beat": count, "context": "cpu-9 / another", "device": "cpu"}
            office.folder.beat("far-2-b", body)
            time.sleep(0.05)

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    with pytest.raises(ToolchainError, match="is now cpu-9 / another: kb resume begins anew"):
        spool.judge(RIGHT)
    replaced.set()
    beating.join(5)
    assert entries(office.folder.jobs) == []
    assert not list(office.folder.outcomes.glob("prepare-*"))


def test_that_nobody_judges_is_said_once(office, monkeypatch, impatient):
    said = []
    spool = office.evaluator()
    spool._say = said.append
    looks = []
    real = time.sleep

    def sleep(seconds):
        looks.append(seconds)
        real(0.001)
        if len(looks) > 40:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        spool.prepare()
    assert [line.split(":")[0] for line in said] == ["no judge answers"]
    # What was asked stays: the answer may still come, and the next run takes it.
    assert [entry.job.split("-")[0] for entry in entries(office.folder.jobs)] == ["prepare"]


def test_files_of_another_version_are_said_in_one_line(office):
    spool = office.evaluator()
    name = spool._job(None).name
    office.folder.outcome(name).write_text(seal("outcome", {"job": name, "unheard": "of"}))
    with pytest.raises(ToolchainError, match="another version of kb"):
        spool.prepare()


def test_a_folder_that_cannot_be_written_is_said_in_one_line(office, tmp_path):
    spool = office.evaluator()
    (tmp_path / "file").write_text("")
    spool._folder = Folder(tmp_path / "file" / "spool")
    with pytest.raises(StoreError, match="spool folder"):
        spool.prepare()


def test_a_target_that_no_judge_has_is_refused():
    from kb.app.queries import find_target

    assert device_of(find_target("h200")) == "cuda"
    assert device_of(find_target("zen4")) == "cpu"
    with pytest.raises(ToolchainError, match="mi300x"):
        device_of(find_target("mi300x"))


def test_the_job_says_what_was_asked(office, far):
    far.start()
    spool = office.evaluator(RELU, seed=11, library="forbidden", precision="tf32")
    spool.judge(RIGHT)
    bodies = [json.loads((far.far.outcome(name)).read_text()) for name in far.answered]
    assert all(body["kind"] == "outcome" for body in bodies)
    job = spool._job(RIGHT)
    assert (job.seed, job.expected, job.device) == (11, HERE, "cpu")
    assert (job.task.settings.library, job.task.settings.precision) == ("forbidden", "tf32")
