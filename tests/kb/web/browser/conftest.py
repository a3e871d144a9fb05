from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn

from kb.config import Home
from kb.knowledge import open_tables
from kb.web.app import make_app
from kb.web.guard import Doors
from kb.web.serve import hosts
from kb.web.sources import Sources, open_sources
from search.runs.export import read_run
from search.runs.storage import Storage

KEPT = sorted((Path(__file__).parents[4] / "examples" / "runs").glob("*.run.gz"))
CHROMIUM = "/usr/bin/chromium"
# As root, and with nobody to talk to: look-ups at the start would hang.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser():
    if not Path(CHROMIUM).exists():
        pytest.skip("no browser: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@dataclass
class Seen:
    """What a page did beside being shown."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def strangers(self, base: str) -> list[str]:
        return [url for url in self.requests if not url.startswith((base, "data:", "blob:"))]


@pytest.fixture
def open_page(browser):
    """Return a function that opens a window, and watches its console and its requests."""
    contexts = []

    def make(**settings):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        seen = Seen()
        page.on(
            "console",
            lambda told: told.type in ("error", "warning") and seen.errors.append(told.text),
        )
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on(
            "dialog",
            lambda dialog: (seen.errors.append(f"dialog {dialog.message}"), dialog.dismiss()),
        )
        return page, seen

    yield make
    for context in contexts:
        context.close()


@contextmanager
def served(sources: Sources) -> Iterator[str]:
    """Serve a home on a free port of this process; give its address."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    app = make_app(sources, Doors(hosts=hosts("127.0.0.1", port)))
    config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while not server.started and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
        taken.close()


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """A home with the six runs that are kept in the examples."""
    home = Home(tmp_path_factory.mktemp("kept") / "home").make()
    storage = Storage(open_tables(home))
    for path in KEPT:
        read_run(storage, path)
    return open_sources(home)


@pytest.fixture(scope="session")
def kept_server(kept: Sources) -> Iterator[str]:
    with served(kept) as base:
        yield base


@pytest.fixture
def serve():
    return served
