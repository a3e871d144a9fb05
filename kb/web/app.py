"""The server: pages and their JSON, read only, and the few forms that write."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from kb import __version__
from kb.errors import KbError
from kb.web.guard import LOGIN, Doors, Guard
from kb.web.links import Served
from kb.web.pages import PAGES, WebPage
from kb.web.skins import STATIC, as_json, render
from kb.web.sources import Sources
from kb.web.views.run import run
from kb.web.writes import routes as writes

Answer = Callable[[Request], Awaitable[Response]]
_MOST_QUERY = 2_000  # characters of one value of a query


def make_app(sources: Sources, doors: Doors) -> Starlette:
    """Return the application over one home.

    Args:
        doors: where it answers, and to whom.
    """
    routes: list[BaseRoute] = [Mount("/static", StaticFiles(directory=STATIC), name="static")]
    routes.append(Route(LOGIN, _login))
    for page in PAGES.values():
        routes.append(Route(f"/{page.path or 'index'}.json", _values(sources, page)))
        routes.append(Route(f"/{page.path}", _page(sources, page, doors)))
    routes += [
        Route("/runs/{run}/live", _live(sources)),
        Route("/compare", _compare),
        *writes(sources),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Guard, doors=doors),
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5),
        ],
        exception_handlers={KbError: _mended, 404: _missing},
    )


def shown(page: WebPage, view: object, doors: Doors, **more: object) -> str:
    """Return a page of the server."""
    return render(
        page.template,
        Served(),
        view=view,
        section=page.section,
        served=True,
        now=time.time(),
        version=__version__,
        pass_word=doors.pass_word,
        **more,
    )


def _page(sources: Sources, page: WebPage, doors: Doors) -> Answer:
    def make(request: Request) -> str:
        return shown(page, page.view(sources, request.path_params, _query(request)), doors)

    async def answer(request: Request) -> Response:
        return HTMLResponse(await to_thread.run_sync(make, request))

    return answer


def _values(sources: Sources, page: WebPage) -> Answer:
    def make(request: Request) -> str:
        return as_json(page.view(sources, request.path_params, _query(request)))

    async def answer(request: Request) -> Response:
        return Response(await to_thread.run_sync(make, request), media_type="application/json")

    return answer


def _live(sources: Sources) -> Answer:
    """Return what answers a page that watches a run: nothing where nothing is new."""

    def make(request: Request) -> Response:
        story = sources.stories.find(request.path_params["run"])
        if story.version == request.query_params.get("since"):
            return Response(status_code=204)
        view = run(sources, story.brief.address, {}, rows=0, drawn=False)
        running = story.brief.state == "running"
        # The rest of the page follows: piece by piece while it runs, whole when it has ended.
        news = {"HX-Trigger": "kb-judged"} if running else {"HX-Refresh": "true"}
        page = render("run_live", Served(), view=view, served=True)
        return HTMLResponse(page, headers=news)

    async def answer(request: Request) -> Response:
        return await to_thread.run_sync(make, request)

    return answer


async def _compare(request: Request) -> Response:
    """Send a form that names two nodes or two runs to their page."""
    told = _query(request)
    names = ("run", "node", "other", "second") if told.get("second") else ("run", "other")
    kind = "nodes" if told.get("second") else "runs"
    parts = [told.get(name, "").strip() for name in names]
    if not all(parts):
        return _told(request, "expected two runs, or two nodes, to compare", 404)
    return RedirectResponse(Served()("compare", kind, *parts), 303)


def _query(request: Request) -> dict[str, str]:
    return {name: value[:_MOST_QUERY] for name, value in request.query_params.items()}


async def _login(_request: Request) -> Response:
    return HTMLResponse(
        render("login", Served(), section="", served=True, version=__version__, pass_word="")
    )


async def _mended(request: Request, error: Exception) -> Response:
    return _told(request, str(error), 404)


async def _missing(request: Request, _error: Exception) -> Response:
    return _told(request, "there is no page at this address", 404)


def _told(request: Request, line: str, status: int) -> Response:
    if request.url.path.endswith(".json"):
        return Response(as_json({"error": line}), status, media_type="application/json")
    page = render(
        "error", Served(), line=line, section="", served=True, version=__version__, pass_word=""
    )
    return HTMLResponse(page, status)
