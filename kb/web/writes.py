"""What pages may change: notes, and whether a lesson is believed. Each is one POST that the guard let in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qs

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from kb.errors import ConfigError, KbError
from kb.visible import visible
from kb.web.guard import read_body
from kb.web.links import Served
from kb.web.notes import add_note, on_lesson, on_node, remove_note
from kb.web.skins import render
from kb.web.sources import Sources
from kb.web.views.lessons import find
from kb.web.views.node import candidate

Said = Mapping[str, str]
Write = Callable[[Sources, Mapping[str, str], Said], str]


def routes(sources: Sources) -> list[Route]:
    """Return the routes that write."""
    written: dict[str, Write] = {
        "/runs/{run}/nodes/{node}/notes": note_node,
        "/runs/{run}/nodes/{node}/notes/{note}/remove": remove_from_node,
        "/lessons/{lesson}/notes": note_lesson,
        "/lessons/{lesson}/notes/{note}/remove": remove_from_lesson,
        "/lessons/{lesson}/retire": retire,
        "/lessons/{lesson}/restore": restore,
        "/lessons/{lesson}/confirm": confirm,
    }
    return [
        Route(path, _answer(sources, write), methods=["POST"]) for path, write in written.items()
    ]


def _answer(sources: Sources, write: Write) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        body = (await read_body(request.receive)).decode("utf-8", "replace")
        said = {name: values[-1] for name, values in parse_qs(body).items()}
        try:
            page = await to_thread.run_sync(write, sources, request.path_params, said)
        except KbError as error:
            told = render("said", Served(), line=visible(str(error)))
            # Beside the form: what was typed stays as it is.
            place = "#said-note" if write in (note_node, note_lesson) else "#said"
            return HTMLResponse(told, 422, headers={"HX-Retarget": place, "HX-Reswap": "innerHTML"})
        if page:
            return HTMLResponse(page)
        return Response(status_code=200, headers={"HX-Refresh": "true"})

    return answer


def note_node(sources: Sources, at: Mapping[str, str], said: Said) -> str:
    """Keep a note on a node; return the notes as its page has them."""
    story = sources.stories.find(at["run"])
    one = candidate(story, at["node"])
    add_note(sources.writer, {"run": story.brief.run, "node": one.number}, said)
    return _node_notes(sources, at, story.brief.run, one.number)


def remove_from_node(sources: Sources, at: Mapping[str, str], _said: Said) -> str:
    """Take a note on a node back."""
    story = sources.stories.find(at["run"])
    one = candidate(story, at["node"])
    _remove(
        sources,
        at["note"],
        {note.number for note in on_node(sources.reader, story.brief.run, one.number)},
    )
    return _node_notes(sources, at, story.brief.run, one.number)


def note_lesson(sources: Sources, at: Mapping[str, str], said: Said) -> str:
    """Keep a note on a lesson."""
    entry = find(sources, at["lesson"])
    add_note(sources.writer, {"lesson": entry.name}, said)
    return _lesson_notes(sources, at, entry.name)


def remove_from_lesson(sources: Sources, at: Mapping[str, str], _said: Said) -> str:
    """Take a note on a lesson back."""
    entry = find(sources, at["lesson"])
    _remove(sources, at["note"], {note.number for note in on_lesson(sources.reader, entry.name)})
    return _lesson_notes(sources, at, entry.name)


def retire(sources: Sources, at: Mapping[str, str], said: Said) -> str:
    """Take a lesson out of use, for a reason."""
    from kb.web.views.lessons import open_book

    entry = find(sources, at["lesson"])
    open_book(sources).retire(entry.name, said.get("because", ""), datetime.now(UTC).date())
    return _told(sources)


def restore(sources: Sources, at: Mapping[str, str], _said: Said) -> str:
    """Bring a retired lesson back into use."""
    from kb.web.views.lessons import open_book

    open_book(sources).restore(find(sources, at["lesson"]).name)
    return _told(sources)


def confirm(sources: Sources, at: Mapping[str, str], said: Said) -> str:
    """Add a measurement to a lesson; whether it confirms is for it to say."""
    from kb.app.lessons.evidence import evidence_of
    from kb.web.views.lessons import open_book

    node = said.get("node", "")
    if not node.isdecimal() or len(node) > 9:
        raise ConfigError(f"expected the number of a node, found {node[:40]!r}")
    entry = find(sources, at["lesson"])
    evidence = evidence_of(sources.home, said.get("run", ""), int(node), entry)
    open_book(sources).confirm(entry.name, evidence, datetime.now(UTC).date())
    return _told(sources)


def _told(sources: Sources) -> str:
    """Have the knowledge base read what changed; the page is looked at anew."""
    from kb.knowledge import sync_lessons

    sync_lessons(sources.home)
    return ""


def _remove(sources: Sources, number: str, here: set[int]) -> None:
    if not number.isdecimal() or len(number) > 9 or int(number) not in here:
        raise ConfigError("expected a note of this page, found none: it was taken back already")
    remove_note(sources.writer, int(number))


def _node_notes(sources: Sources, at: Mapping[str, str], run: str, node: int) -> str:
    parts = ("runs", at["run"], "nodes", at["node"])
    return render(
        "notes_of", Served(), notes=on_node(sources.reader, run, node), parts=parts, served=True
    )


def _lesson_notes(sources: Sources, at: Mapping[str, str], lesson: str) -> str:
    parts = ("lessons", at["lesson"])
    return render(
        "notes_of", Served(), notes=on_lesson(sources.reader, lesson), parts=parts, served=True
    )
