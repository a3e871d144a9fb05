from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb.config import Home
from kb.database import create_tables, open_engine
from kb.indexes.chroma import ChromaServer, server
from kb.knowledge import Knowledge, open_knowledge
from kb.store.documents import Store

CORPUS = {
    "ideas/pad-shared-memory.md": """---
kind: idea
title: Pad shared memory against bank conflicts
category: memory access
scope: {vendor: [nvidia], language: [cuda]}
symptoms: [bank-conflicts]
---
## Why lanes wait

Shared memory has 32 banks. Lanes of a warp that ask for different words of one bank are served
one after the other.

## What to write

Add one element to each row of the tile: `__shared__ float tile[32][33];`.
""",
    "ideas/vector-loads.md": """---
kind: idea
title: Load sixteen bytes at a time
category: memory access
scope: {vendor: [nvidia]}
symptoms: [uncoalesced-access, memory-bound]
---
## How

Use `float4` loads where the address is aligned, so that each lane moves sixteen bytes with one
instruction and fewer requests are in flight.
""",
    "ideas/block-registers.md": """---
kind: idea
title: Keep a tile of the output in registers
category: compute and instructions
scope: {language: [cpp]}
symptoms: [compute-bound]
---
## How

Accumulate a block of six rows by two vectors in registers; each loaded value is used many times.
""",
    "guidance/softmax.md": """---
kind: guide
title: Softmax without overflow
---
## Subtract the largest value first

The exponential overflows for large inputs. Subtract the row's maximum before exponentiating, then
divide by the sum.
""",
    "targets/toy.md": """---
kind: target
title: Toy accelerator
name: toy
vendor: acme
architecture: toy1
device: gpu
languages: [cuda]
units: 4
clock: 1.0e+9
simd_width: 32
peak: {float32: 1.0e+12}
bandwidth: 1.0e+11
---
## What decides speed on the toy accelerator

Its memory is slow: keep intermediate results on the chip.
""",
}


def write_corpus(folder: Path) -> Path:
    for name, text in CORPUS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def knowledge(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    return open_knowledge(Home(tmp_path_factory.mktemp("home")), shipped=corpus)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def store(home: Home) -> Store:
    engine = open_engine(home)
    create_tables(engine)
    return Store(engine)


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server on a free port; each home has a collection of its own there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("chroma")
    place = [
        "--path",
        str(tmp_path_factory.mktemp("chroma")),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with subprocess.Popen(
        [str(program), "run", *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(port)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


@pytest.fixture
def chroma(chroma_server: str, monkeypatch: pytest.MonkeyPatch) -> ChromaServer:
    """The server, named as a user names it."""
    monkeypatch.setenv("KB_CHROMA", chroma_server)
    named = server()
    assert named is not None
    return named
