"""Make the pictures of docs/web.md anew, from the runs that are kept in examples/runs.

    python tools/screenshots.py [--out docs/images]

Needs what the tests of pages need: Chromium (`apt-get install chromium`) and playwright.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from playwright.sync_api import Page, sync_playwright

from kb.config import Home
from kb.knowledge import open_tables
from kb.web.app import make_app
from kb.web.guard import Doors
from kb.web.serve import hosts
from kb.web.sources import open_sources
from search.runs.export import read_run
from search.runs.storage import Storage

ROOT = Path(__file__).resolve().parent.parent
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
WIDTH, HEIGHT = 1180, 760
MOST = 150_000  # bytes of a picture
# Name, address, what is at the top, and whether the page is dark.
PICTURES = (
    ("runs", "/", "", False),
    ("run", "/runs/selective-scan-1", "", False),
    ("node-dark", "/runs/int4-linear-1/nodes/12", "#measured", True),
    ("idea", "/ideas/cpu-rows-simd", "", False),
    ("compare", "/compare/nodes/selective-scan-1/17/selective-scan-1/0", "", False),
)


def main() -> int:
    """Write the pictures; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").make()
        storage = Storage(open_tables(home))
        for path in sorted((ROOT / "examples" / "runs").glob("*.run.gz")):
            read_run(storage, path)
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        app = make_app(open_sources(home), Doors(hosts=hosts("127.0.0.1", port)))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            return take(f"http://127.0.0.1:{port}", out)
        finally:
            server.should_exit = True
            thread.join(10)


def take(base: str, out: Path) -> int:
    """Take the pictures of a server's pages."""
    large = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        for name, address, top, dark in PICTURES:
            context = browser.new_context(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if dark else "light",
            )
            page: Page = context.new_page()
            page.goto(f"{base}{address}")
            if top:
                page.locator(top).evaluate("element => element.scrollIntoView()")
            page.wait_for_timeout(300)
            path = out / f"{name}.png"
            page.screenshot(path=path)
            size = path.stat().st_size
            large += size > MOST
            print(f"{path}: {size / 1e3:.0f} kB")
            context.close()
        browser.close()
    if large:
        print(f"{large} pictures are larger than {MOST / 1e3:.0f} kB")
    return int(large > 0)


if __name__ == "__main__":
    sys.exit(main())
