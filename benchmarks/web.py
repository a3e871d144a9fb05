"""How fast `kb serve` answers over large records, and whether looking holds up a run that writes.

    python benchmarks/web.py [--nodes 10000] [--runs 1000] [--rate 100] [--seconds 20]

Three homes are made: one with a run of many nodes, one with many runs, and one in which a process writes
candidates at a rate while pages of that run are read without a pause. Each is served by a process of its
own. First paint is what Chromium tells (first-contentful-paint), bytes are those of the network and, in
brackets, of the page. Everything is made up and shaped as a real record: sources of 4 kB, four idle rounds
for each that gains, a quarter of failures.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from kb.config import Home
from kb.knowledge import open_tables
from search.attempt import Draft, Idea
from search.graph import Node, Proposal, Slot, Step, hash_source
from search.outcome import BuildFailed, KernelTime, Outcome, Passed, Ratio, Wrong, to_json
from search.runs.storage import Storage
from search.runs.tables import NODES, OUTCOMES, PROPOSALS, RUNS, SOURCES

IDEAS, BRANCHES = 6, 3
ABOUT = {
    "task": "rows", "target": "h200", "language": "cuda", "author": "llm", "path": "rows.yaml", "reference": "rows.py",
    "source": "import torch\n" * 60, "settings": {"precision": "strict", "search": {"policy": "beam", "rounds": 999}},
    "work": {"flops": 1e9, "bytes": 1e8, "traffic": 4e8, "families": ["softmax", "elementwise"]},
}  # fmt: skip
PADDING = "".join(f"// line {n} of a kernel that does what kernels do\n" for n in range(85))


def outcome(ratio: float, rng: random.Random) -> Outcome:
    if rng.random() < 0.12:
        return Wrong(reason="37 of 4096 elements differ", detail="[0, 3]: 1.25 for 1.5\n" * 20)
    if rng.random() < 0.15:
        return BuildFailed(
            reason="identifier 'foo' is undefined", detail="kernel.cu(12): error\n" * 20
        )
    spread = rng.uniform(0.005, 0.03)
    kernel = KernelTime(
        name="rows_kernel", count=1, seconds=1e-4 / ratio, own=True, grid="1x1x1", block="256x1x1"
    )
    return Passed(
        seconds=1e-3 / ratio, samples=210,
        speedup={name: Ratio(ratio=ratio / by, low=ratio / by * (1 - spread), high=ratio / by * (1 + spread))
                 for name, by in (("eager", 1.0), ("compile", 1.7))},
        max_error=1e-7, allowed_error=1e-6, own_share=0.99, kernels=(kernel,),
        profile={"flops": 1e9, "bytes": 1e8, "floor_memory": 2e-5, "floor_arithmetic": 1e-5, "roofline": 0.4},
        calls={name: tuple(1e-3 / ratio * (1 + n / 90) for n in range(21)) for name in ("candidate", "eager", "compile")},
    )  # fmt: skip


def rows_of(run: str, count: int, rng: random.Random) -> dict[Any, list[dict[str, Any]]]:
    """Return the rows of a run of `count` nodes."""
    rows: dict[Any, list[dict[str, Any]]] = {
        table: [] for table in (PROPOSALS, NODES, SOURCES, OUTCOMES)
    }
    best, parent, began = 1.0, None, 1.7e9
    number = round = 0
    while number < count:
        ideas = [{"title": f"Idea {round}.{n}: keep the tile where it is and move what is small", "text": "Words. " * 40,
                  "category": "memory access", "record": None, "passages": [], "plan": {}, "exchanges": []}
                 for n in range(IDEAS)]  # fmt: skip
        rows[PROPOSALS].append(
            {
                "run": run,
                "slot": f"{round}.0",
                "parent": parent,
                "ideas": json.dumps(ideas),
                "retrieved": "[]",
            }
        )
        first, gained = parent, None
        for which in range(IDEAS):
            for branch in range(BRANCHES):
                if number >= count:
                    break
                ratio = best * rng.uniform(0.6, 1.001 if rng.random() < 0.97 else 1.06)
                text = f"# {run} {number}\n{PADDING}"
                told = outcome(ratio, rng)
                key = hash_source(text) + "-judged"
                rows[SOURCES].append({"hash": hash_source(text), "text": text})
                rows[OUTCOMES].append(
                    {"key": key, "outcome": to_json(told), "judged": began + number * 4}
                )
                draft = {"plan": {}, "passages": [], "exchanges": []}
                rows[NODES].append({"run": run, "number": number, "step": f"{round}.0.{which}.{branch}.0", "parent": first,
                                    "source": hash_source(text), "draft": json.dumps(draft), "outcome": key,
                                    "elapsed": number * 4.0})  # fmt: skip
                if isinstance(told, Passed) and ratio > best:
                    best, gained = ratio, number
                number += 1
        parent = gained if gained is not None else parent
        round += 1
    return rows


def fill(home: Home, runs: int, nodes: int) -> None:
    """Write `runs` finished runs of `nodes` nodes each."""
    engine = open_tables(home)
    Storage(engine)
    rng = random.Random(7)
    for number in range(runs):
        run = f"rows-{number + 1}"
        rows = rows_of(run, nodes, rng)
        passed = [json.loads(row["outcome"]) for row in rows[OUTCOMES]]
        top = max(
            range(nodes),
            key=lambda n: passed[n].get("speedup", {}).get("eager", {}).get("ratio", 0.0),
        )
        best = {"node": top, "idea": "Keep the tile", "seconds": passed[top].get("seconds"), "confirmed": True,
                "speedup": passed[top].get("speedup", {}), "source": rows[SOURCES][top]["text"]}  # fmt: skip
        counts: dict[str, int] = {}
        for one in passed:
            counts[one["kind"]] = counts.get(one["kind"], 0) + 1
        report = {**ABOUT, "run": run, "best": best, "candidates": nodes, "outcomes": counts, "stop_reason": "done",
                  "seconds": nodes * 4.0, "timed": True, "baselines": {"eager": 1e-3, "compile": 6e-4}}  # fmt: skip
        with engine.begin() as connection:
            connection.execute(insert(RUNS), {
                "run": run, "about": json.dumps({**ABOUT, "task": f"rows{number % 40}"}), "started": 1.7e9 + number * 900,
                "status": "finished", "stop_reason": "done", "report": json.dumps(report), "elapsed": nodes * 4.0,
            })  # fmt: skip
            for table, listed in rows.items():
                for start in range(0, len(listed), 500):
                    connection.execute(insert(table), listed[start : start + 500])
    engine.dispose()


@contextmanager
def served(home: Home) -> Iterator[str]:
    command = [sys.executable, "-m", "kb.cli", "serve", "--port", "0"]
    env = {**os.environ, "KB_HOME": str(home.root), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://[^/]+", line)
        if found is None:
            sys.exit(f"the server did not start: {line}{process.stdout.read()}")
        wait_for(found.group())
        yield found.group()
    finally:
        process.terminate()
        process.wait(20)


def wait_for(base: str) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{base}/static/kb.css", timeout=5).read()
            return
        except OSError:
            time.sleep(0.05)


def get(base: str, path: str) -> tuple[float, int, int, int]:
    """Return the seconds of one request, bytes on the network and of the page, and the status."""
    request = urllib.request.Request(f"{base}{path}", headers={"Accept-Encoding": "gzip"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        data = answer.read()
        seconds = time.perf_counter() - began
        whole = gzip.decompress(data) if answer.headers.get("Content-Encoding") == "gzip" else data
        return seconds, len(data), len(whole), answer.status


def paint(base: str, path: str, repeats: int = 5) -> dict[str, float] | None:
    """Return what a browser with an empty cache tells of a page: medians of seconds, and bytes of the network."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return None
    if not Path("/usr/bin/chromium").exists():
        return None
    arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync"]  # fmt: skip
    seen: list[tuple[float, float, int]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        for _ in range(repeats):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto(f"{base}{path}", wait_until="load")
            until(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
            first, size = page.evaluate(
                "[performance.getEntriesByName('first-contentful-paint')[0].startTime, "
                "performance.getEntries().filter(e => e.transferSize && !e.name.endsWith('/tree'))"
                ".reduce((sum, e) => sum + e.transferSize, 0)]"
            )
            until(page, "!!document.querySelector('svg.tree')")
            tree = page.evaluate("performance.now()") / 1e3
            seen.append((first / 1e3, tree, size))
            context.close()
        browser.close()
    paints, trees, sizes = zip(*seen, strict=True)
    return {
        "paint": statistics.median(paints),
        "tree": statistics.median(trees),
        "bytes": max(sizes),
    }


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true; the page's own policy forbids to have it do so itself."""
    for _ in range(3_000):
        if page.evaluate(expression):
            return
        time.sleep(0.02)
    sys.exit(f"waited in vain until {expression}")


def large_run(folder: Path, nodes: int) -> None:
    home = Home(folder / "large").make()
    fill(home, 1, nodes)
    print(f"\n| a run of {nodes:,} nodes | first | again | bytes sent (page) |\n|---|---|---|---|")
    with served(home) as base:
        for path in (
            "/runs/rows-1",
            "/runs/rows-1/tree",
            "/runs/rows-1/nodes/77",
            "/runs/rows-1/live?since=x",
        ):
            first, sent, whole, _ = get(base, path)
            again = statistics.median(get(base, path)[0] for _ in range(5))
            print(
                f"| {path.split('?')[0]} | {first:.3f} s | {again:.3f} s | {sent / 1e3:.0f} kB ({whole / 1e3:.0f} kB) |"
            )
        found = paint(base, "/runs/rows-1")
    if found is not None:
        print(
            f"\nChromium, empty cache, median of 5: first contentful paint {found['paint']:.3f} s, all files "
            f"{found['bytes'] / 1e3:.0f} kB, the tree is there after {found['tree']:.2f} s"
        )


def many_runs(folder: Path, runs: int) -> None:
    home = Home(folder / "many").make()
    fill(home, runs, 30)
    print(
        f"\n| {runs:,} runs of 30 nodes | first | again (median of 9) | bytes sent (page) |\n|---|---|---|---|"
    )
    with served(home) as base:
        for path in ("/", "/?sort=speedup&q=rows7", "/?page=9", "/ideas"):
            first, sent, whole, _ = get(base, path)
            again = statistics.median(get(base, path)[0] for _ in range(9))
            print(
                f"| {path} | {first:.3f} s | {again:.3f} s | {sent / 1e3:.0f} kB ({whole / 1e3:.0f} kB) |"
            )


WRITER = """
import json, random, sys, time
sys.path.insert(0, {here!r})
import web
web.write(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
"""


def write(root: str, rate: float, seconds: float) -> None:
    """Write candidates at a rate through the record, as a search does; print how long each write took."""
    storage = Storage(open_tables(Home(Path(root))))
    record = storage.begin("live", {**ABOUT, "task": "live"})
    rng = random.Random(5)
    took: list[float] = []
    late = 0
    began = time.perf_counter()
    total = int(rate * seconds)
    for number in range(total):
        due = began + number / rate
        pause = due - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        late += pause < -1.0
        before = time.perf_counter()
        round, place = divmod(number, IDEAS)
        if place == 0:
            ideas = tuple(
                Idea(title=f"Idea {round}.{n}", text="Words. " * 30, category="memory access")
                for n in range(IDEAS)
            )
            record.add_proposal(Proposal(slot=Slot(round, 0), parent=None, ideas=ideas))
        text = f"# live {number}\n{PADDING}"
        step = Step(Slot(round, 0), place, 0)
        proposal = record.graph.proposals[step.slot]
        node = Node(
            number=number,
            step=step,
            parent=None,
            idea=proposal.ideas[place],
            draft=Draft(source=text),
        )
        record.add_node(node)
        record.add_outcome(
            node,
            outcome(rng.uniform(1, 4), rng),
            key=f"live-{number}",
            elapsed=time.perf_counter() - began,
        )
        took.append(time.perf_counter() - before)
    took.sort()
    print(json.dumps({"written": total, "seconds": time.perf_counter() - began, "late": late, "median": took[len(took) // 2],
                      "p99": took[int(len(took) * 0.99)], "most": took[-1]}))  # fmt: skip


def live(folder: Path, rate: float, seconds: float) -> bool:
    print(
        f"\n| {rate:.0f} candidates a second for {seconds:.0f} s | written | a write: median, 99 %, most | pages read |\n|---|---|---|---|"
    )
    whole = True
    for name, readers in (("nobody looks", 0), ("two look without a pause", 2)):
        home = Home(folder / f"live{readers}").make()
        open_tables(home).dispose()
        with served(home) as base:
            code = WRITER.format(here=str(Path(__file__).parent))
            command = [sys.executable, "-c", code, str(home.root), str(rate), str(seconds)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            read: list[int] = []
            looking = [
                threading.Thread(target=look, args=(base, process, read, place))
                for place in range(readers)
            ]
            for one in looking:
                one.start()
            told = json.loads(process.communicate()[0])
            for one in looking:
                one.join()
            shown = json.loads(
                urllib.request.urlopen(f"{base}/runs/live-1.json", timeout=60).read()
            )
        storage = Storage(open_tables(home))
        there = len(storage.record("live-1").graph.nodes)
        whole = whole and there == told["written"] == shown["run"]["candidates"]
        writes = ", ".join(f"{told[key] * 1e3:.1f} ms" for key in ("median", "p99", "most"))
        print(
            f"| {name} | {there:,} of {told['written']:,} in {told['seconds']:.1f} s | {writes} | {len(read)}, failed {read.count(0)} |"
        )
    return whole


def look(base: str, process: subprocess.Popen[str], read: list[int], place: int) -> None:
    paths = (("/runs/live-1", "/"), ("/runs/live-1/live?since=x", "/runs/live-1/tree"))[place % 2]
    turn = 0
    while process.poll() is None:
        try:
            read.append(get(base, paths[turn % 2])[3])
        except urllib.error.HTTPError as error:
            if error.code != 404:  # before the run has begun
                read.append(0)
            time.sleep(0.05)
        turn += 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if told.nodes:
            large_run(Path(folder), told.nodes)
        if told.runs:
            many_runs(Path(folder), told.runs)
        whole = live(Path(folder), told.rate, told.seconds) if told.rate else True
    if not whole:
        print("\nsomething that was written is not there")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
