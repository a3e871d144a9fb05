from __future__ import annotations

import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from runpy import run_path

import pytest
from sqlalchemy import insert
from starlette.testclient import TestClient

from kb.records.types import Hit, Passage, Why
from kb.store.documents import Store
from kb.store.tables import NewDocument, Piece
from kb.web.app import make_app
from kb.web.guard import Doors
from kb.web.notes import add_note
from kb.web.site import write_site
from kb.web.text import address
from search.outcome import Checked, Crashed, Kernel, KernelTime, Refused, Wrong
from search.runs.calls import CALLS
from search.runs.snapshot import _HITS, GIVEN
from synth.models import Message, Reply, Request

TEXTS = run_path(str(Path(__file__).with_name("hostile.py")))["TEXTS"]
LONG = "<b>" + "x" * 10_000_000
HOST = "127.0.0.1:8321"
TAGS = {
    "a",
    "article",
    "b",
    "body",
    "button",
    "circle",
    "code",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "head",
    "header",
    "html",
    "i",
    "input",
    "kbd",
    "label",
    "li",
    "link",
    "main",
    "meta",
    "nav",
    "noscript",
    "ol",
    "option",
    "p",
    "path",
    "pre",
    "rect",
    "script",
    "section",
    "select",
    "small",
    "span",
    "strong",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "text",
    "textarea",
    "th",
    "thead",
    "title",
    "tr",
    "ul",
    "blockquote",
    "hr",
    "br",
}
SAFE_LINK = re.compile(r"/|#|\.\./|[a-z]+/|index\.html|[\w-]+\.html")


class Page(HTMLParser):
    """Reads a page as a browser would, and says what in it is not ours."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in TAGS:
            self.faults.append(f"<{tag}>")
        for name, given in attrs:
            value = given or ""
            if name.startswith("on") or name in (
                "style",
                "srcdoc",
                "formaction",
                "ping",
                "hx-on",
                "xlink:href",
            ):
                self.faults.append(f"{tag} {name}={value[:60]}")
            if name in ("href", "src", "action", "hx-get", "hx-post") and not SAFE_LINK.match(
                value
            ):
                self.faults.append(f"{tag} {name}={value[:60]}")
            if tag == "script" and not dict(attrs).get("src", "").endswith((".js",)):
                self.faults.append("script without a file")

    def handle_data(self, data):
        self.words.append(data)


def write_everywhere(runs, text: str, passed, idea) -> str:
    """Put `text` into every field that a model, a document, a compiler or a person fills; return the run."""
    name = text[:400]  # what nobody could make ten megabytes long
    source = text.encode(
        "utf-8", "replace"
    ).decode()  # what is no UTF-8 is no source: it has no hash
    record = runs.begin(
        "hostile", task=name, target=name, language=name, author=name, source=text,
        settings={"precision": name, "search": {"policy": name}, "model": {"name": name, "provider": name}},
        work={"flops": 1.0, "bytes": 1.0, "families": [name]},
    )  # fmt: skip
    request = Request(
        messages=(Message(role=text[:40], content=text),),
        max_tokens=1,
        temperature=0.0,
        seed=len(text),
        model=text[:80],
    )
    reply = Reply(text=text, model=name, tokens_in=1, tokens_out=1, seconds=1.0, finish=text[:40])
    runs.storage.put(request.key(), request, reply)
    one = idea(text, text=text, category=name, record=name, passages=("p",), plan={name: text})
    runs.propose(record, 0, None, one, idea("Second " + text), retrieved=(name,))
    timed = KernelTime(name=name, count=1.0, seconds=1e-6, own=True, grid=name, block=name)
    runs.node(
        record, (0, 0, 0, 0), passed(2.0, losses=(name,), kernels=(timed,), profile={name: 1.0}, calls={name: (1e-3,)}),
        source=source, passages=("p",), exchanges=(request.key(),), plan={name: text},
    )  # fmt: skip
    runs.node(record, (0, 1, 0, 0), Wrong(reason=text, detail=text), source=source + "\n")
    runs.node(record, (0, 1, 1, 0), Refused(reason=text, trick=name, detail=text), source=source)
    runs.node(record, (0, 1, 2, 0), Crashed(reason=text, detail=text, signal=name), source=source)
    kernel = Kernel(
        name=name, architecture=name, registers=1, shared=1, spills=0, stack=0, warps=1, occupancy=0.5,
        limited_by=(name,), losses=(name,),
    )  # fmt: skip
    runs.node(
        record,
        (0, 1, 3, 0),
        Checked(
            kernels=(kernel,), max_error=None, allowed_error=None, unchecked=name, notes=(name,)
        ),
    )
    passage = Passage(
        id="p", document=name, section=text, kind="document", text=text, tokens=1, flags=(name,)
    )
    hit = Hit(
        passage=passage,
        score=1.0,
        dense_rank=1,
        lexical_rank=1,
        why=Why(trail=(text,), kept=name, ranks={name: 1}),
    )
    # As a record from elsewhere may hold it: lone surrogates are no UTF-8, and stay escapes.
    hits = json.dumps(_HITS.dump_python((hit,), mode="json" if "\ud800" not in text else "python"))
    rows = [{"run": record.run, "kind": "hits", "key": "q", "value": zlib.compress(hits.encode())},
            {"run": record.run, "kind": "diagnosis", "key": "0",
             "value": zlib.compress(json.dumps({"symptoms": [name], "lines": [text]}).encode())}]  # fmt: skip
    call = {"run": record.run, "number": 0, "key": "", "role": text[:20], "model": text[:200], "tokens_in": 1,
            "tokens_out": 1, "cached": 0, "cost": None, "seconds": 1.0, "paid": True, "at": 1.0}  # fmt: skip
    with runs.storage.engine.begin() as connection:
        connection.execute(insert(GIVEN), rows)
        if "\ud800" not in text:  # the database itself refuses those
            connection.execute(insert(CALLS), [call])
    if "\ud800" not in text:
        add_note(
            runs.storage.engine,
            {"run": record.run, "node": 0},
            {"text": text[:9000], "quote": text[:9000]},
        )
        piece = Piece(section=text, text=text, tokens=1, flags=("suspicious",), asked=(name,))
        Store(runs.storage.engine).put(
            NewDocument(
                key=name,
                shown=name,
                digest="d",
                kind="document",
                name=name,
                title=text,
                body=text,
                pieces=(piece,),
            )
        )
    record.finish_search(source[:200])
    return record.run


def paths(run: str, text: str) -> list[str]:
    node = [f"/runs/{run}/nodes/{number}" for number in range(5)]
    return [
        "/", f"/runs/{run}", f"/runs/{run}/tree", f"/runs/{run}/live", *node, f"{node[1]}/diff/reference", "/ideas",
        f"/ideas/{address(text[:400])}", "/documents", f"/documents/{address(text[:400])}", "/notes", "/lessons",
        f"/compare/nodes/{run}/0/{run}/1", f"/compare/runs/{run}/{run}",
    ]  # fmt: skip


@pytest.fixture
def client(runs, look):
    app = make_app(look(), Doors(hosts=frozenset({HOST})))
    # Entered, it answers all requests in one thread and loop; else each has its own.
    with TestClient(app, base_url=f"http://{HOST}") as client:
        yield client


def test_there_are_enough_of_them():
    assert len(set(TEXTS)) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_others_wrote_is_text_on_every_page(runs, client, passed_outcome, new_idea, text):
    run = write_everywhere(runs, text, passed_outcome, new_idea)
    # JSON has no tags that one of these could close: of the ordinary ones a few are enough.
    ordinary = text.isascii() and text.isprintable() and len(text) < 1000
    with_json = not ordinary or TEXTS.index(text) % 5 == 0
    for path in paths(run, text):
        answer = client.get(path)
        if "\ud800" in text and path.startswith("/documents/"):
            continue  # it could not be stored
        assert answer.status_code == 200, path
        page = Page(answer.text)
        assert page.faults == [], path
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]",
            answer.text,
        ), path
        json_path = f"{path}.json" if path != "/" else "/index.json"
        if with_json and not path.endswith("/live"):
            assert client.get(json_path).status_code == 200, json_path


@pytest.mark.slow
def test_a_line_of_ten_megabytes_is_cut_on_the_page_and_whole_in_its_json(
    runs, client, passed_outcome, new_idea
):
    run = write_everywhere(runs, LONG, passed_outcome, new_idea)
    for path in paths(run, LONG[:400]):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert len(answer.text) < 400_000, path
        assert Page(answer.text).faults == [], path
    assert len(client.get(f"/runs/{run}/nodes/0.json").json()["source"]) == len(LONG)


@pytest.mark.slow
def test_a_static_site_of_hostile_runs_is_text_and_stays_in_its_folder(
    runs, look, tmp_path, passed_outcome, new_idea
):
    for text in TEXTS[::6]:
        write_everywhere(runs, text, passed_outcome, new_idea)
    site = tmp_path / "there" / "site"
    write_site(look(), site)
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"site"}
    for path in site.rglob("*.html"):
        assert Page(path.read_text("utf-8")).faults == [], path.name
        assert re.fullmatch(r"[a-z0-9_-]+\.html", path.name)
