"""What `kb doctor` looks at; each check says what to do about what it finds."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

from kb.app.doctor.finding import CheckResult, State
from kb.config import Home
from kb.errors import KbError


def examine(home: Home) -> list[CheckResult]:
    """Look at every part; a part that raises what a user can mend is broken, not fatal."""
    checks: tuple[tuple[str, Callable[[Home], Iterator[CheckResult]]], ...] = (
        ("home", _home),
        ("compiler", _compiler),
        ("torch", _torch),
        ("target", _target),
        ("gpu", _gpu),
        ("counters", _counters),
        ("sandbox", _sandbox),
        ("embeddings", _embeddings),
        ("tokens", _tokens),
        ("model", _model),
    )
    findings = []
    for part, check in checks:
        try:
            findings += list(check(home))
        except KbError as error:
            findings.append(CheckResult(part=part, state="broken", detail=str(error)))
    return findings


def _home(home: Home) -> Iterator[CheckResult]:
    from sqlalchemy import text

    from kb.database import open_engine, reading

    if not home.root.exists():
        yield CheckResult(
            part="home", state="off", detail=f"{home.root} is not there yet", advice="kb init"
        )
        return
    with reading(open_engine(home)) as session:
        session.execute(text("select 1"))
    free = shutil.disk_usage(home.root).free
    state: State = "works" if free > 2**30 else "limited"
    advice = "" if state == "works" else "free at least 1 GB"
    yield CheckResult(
        part="home", state=state, detail=f"{home.root}, {free / 2**30:.0f} GB free", advice=advice
    )


def _compiler(_home: Home) -> Iterator[CheckResult]:
    path = shutil.which("g++")
    if path is None:
        yield CheckResult(
            part="compiler",
            state="broken",
            detail="no g++ on PATH",
            advice="install your system's C++ compiler (build-essential)",
        )
        return
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    yield CheckResult(part="compiler", state="works", detail=version.stdout.splitlines()[0])


def _torch(_home: Home) -> Iterator[CheckResult]:
    from importlib.metadata import version

    yield CheckResult(part="torch", state="works", detail=f"torch {version('torch')}")


def _target(_home: Home) -> Iterator[CheckResult]:
    from kb.app.device import choose_place

    place = choose_place("auto")
    record = place.target
    rate = f"{record.peak['float32'] / 1e9:.0f} GFLOP/s float32"
    detail = f"{record.name}: {record.title}, {rate}; target: auto judges on the {place.how}"
    yield CheckResult(part="target", state="works", detail=detail)


def _gpu(home: Home) -> Iterator[CheckResult]:
    from kb.app.doctor.devices import gpu

    yield from gpu(home)


def _counters(home: Home) -> Iterator[CheckResult]:
    from kb.app.doctor.devices import counters

    yield from counters(home)


_WALLS = {
    "namespaces": "the filter of system calls alone keeps candidates from the network and from other programs' "
    "shared memory: let this user make namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container --security-opt seccomp=unconfined)"
}


def _sandbox(_home: Home) -> Iterator[CheckResult]:
    from search.sandbox.sandbox import REQUIRED, probe

    for part in probe():
        state: State = "works" if part.works else "limited"
        if not part.works and part.name in REQUIRED:
            state = "broken"
        advice = _WALLS.get(part.name, "candidates are less isolated: use a kernel that allows it")
        detail = f"{part.name}: {'' if part.works else 'not there, '}{part.detail}"
        yield CheckResult(
            part="sandbox", state=state, detail=detail, advice="" if part.works else advice
        )


def _embeddings(home: Home) -> Iterator[CheckResult]:
    from kb.embedders import DEFAULT_EMBEDDER, create_embedder

    embedder = create_embedder(os.environ.get("KB_EMBEDDER") or DEFAULT_EMBEDDER, home.cache)
    (vector,) = embedder.embed(["bank conflicts"])
    yield CheckResult(
        part="embeddings", state="works", detail=f"{embedder.name}, {len(vector)} dimensions"
    )


def _tokens(_home: Home) -> Iterator[CheckResult]:
    from kb.tokens import count_tokens

    count = count_tokens("shared memory bank conflicts")
    yield CheckResult(
        part="tokens", state="works", detail=f"tiktoken, {count} tokens in four words"
    )


def _model(_home: Home) -> Iterator[CheckResult]:
    name = os.environ.get("KB_MODEL")
    if name is None:
        yield CheckResult(
            part="model",
            state="off",
            detail="none configured: the offline author works from the knowledge base",
            advice="set KB_MODEL, KB_BASE_URL and KB_API_KEY, or `model:` in a task",
        )
        return
    from kb.app.mailbox import Mail
    from kb.app.models import make_model
    from search.settings import ModelSettings
    from synth.models import Message, Request

    settings = ModelSettings(name=name, base_url=os.environ.get("KB_BASE_URL"), retries=0)
    model = make_model(settings, Mail())
    question = Message(role="user", content="Answer with the word ready.")
    reply = model.reply(Request(messages=(question,), max_tokens=16, temperature=0.0, seed=0))
    yield CheckResult(
        part="model", state="works", detail=f"{name} answered in {reply.seconds:.1f} s"
    )
