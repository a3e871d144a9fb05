"""The pages: an address each, the view that reads it, and the template that shows it.

A new page is a view (`kb.web.views`), a template, and a line in `PAGES`. It then has its JSON, and its
place in a static site where `places` names the addresses that a site has of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from kb.web.sources import Query, Sources
from kb.web.story import Brief, Story
from kb.web.text import address
from kb.web.views.compare import compare_nodes, compare_runs
from kb.web.views.documents import document, documents
from kb.web.views.home import home
from kb.web.views.ideas import idea, ideas, targets
from kb.web.views.lessons import lesson, lessons, open_book
from kb.web.views.node import ancestors, diff, nearby, node
from kb.web.views.notes import notes
from kb.web.views.run import run
from kb.web.views.search import search
from kb.web.views.suite import places as suite_places
from kb.web.views.suite import suite, suites
from kb.web.views.tree import tree

View = Callable[[Sources, Mapping[str, str], Query], object]
Places = Callable[[Sources], Iterable[Mapping[str, str]]]
# What a static site asks a view for: everything on one page.
WHOLE = {"rows": "all"}
MOST_PAIRED = 8  # runs of one task that a static site compares with each other


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page.

    Attributes:
        path: its address, with the names of its parts in braces; "" for the first page.
        section: of the navigation, "" for none.
        places: the parts of its addresses that a static site has.
    """

    path: str
    template: str
    view: View
    section: str = ""
    places: Places = lambda _sources: ()

    def parts(self, at: Mapping[str, str]) -> tuple[str, ...]:
        """Return the parts of one of its addresses."""
        return tuple(part.format(**at) for part in self.path.split("/")) if self.path else ()


def _rows(query: Query, usual: int) -> int | None:
    return None if query.get("rows") == WHOLE["rows"] else usual


def _runs(sources: Sources) -> Iterator[tuple[dict[str, str], Story]]:
    names = [brief.run for brief in sources.stories.briefs() if brief.state != "broken"]
    for story in sources.stories.several(names).values():
        yield {"run": story.brief.address}, story


def _run_places(sources: Sources) -> Iterator[dict[str, str]]:
    return (at for at, _ in _runs(sources))


def _node_places(sources: Sources) -> Iterator[dict[str, str]]:
    for at, story in _runs(sources):
        yield from ({**at, "node": str(one.number)} for one in story.candidates)


def _diff_places(sources: Sources) -> Iterator[dict[str, str]]:
    for at, story in _runs(sources):
        for one in story.candidates:
            for other in nearby(ancestors(story, one)):
                yield {**at, "node": str(one.number), "ancestor": other.name}


def _idea_places(sources: Sources) -> Iterator[dict[str, str]]:
    """Yield the ideas that some run tried, and the records of ideas."""
    return ({"idea": row.address} for row in ideas(sources, {}, None).rows)


def _target_places(sources: Sources) -> Iterator[dict[str, str]]:
    for row in ideas(sources, {}, None).rows:
        for one, other in combinations(row.targets, 2):
            yield {"idea": row.address, "one": address(one), "other": address(other)}


def _run_pair_places(sources: Sources) -> Iterator[dict[str, str]]:
    """Yield the pairs of runs of one task, the later run second."""
    by_task: dict[str, list[Brief]] = {}
    for brief in sources.stories.briefs():
        if brief.state != "broken":
            by_task.setdefault(brief.task, []).append(brief)
    for briefs in by_task.values():
        for later, earlier in combinations(briefs[:MOST_PAIRED], 2):
            yield {"run": earlier.address, "other": later.address}


def _pair_places(sources: Sources) -> Iterator[dict[str, str]]:
    """Yield the pairs of the best nodes of runs of one task."""
    best = {brief.address: brief.best for brief in sources.stories.briefs()}
    for pair in _run_pair_places(sources):
        one, other = best[pair["run"]], best[pair["other"]]
        if one is not None and other is not None:
            yield {**pair, "node": str(one.node), "second": str(other.node)}


PAGES: dict[str, WebPage] = {
    "home": WebPage(
        path="",
        template="home",
        section="runs",
        view=lambda read, _at, query: home(read, query, _rows(query, 50)),
        places=lambda _sources: ({},),
    ),
    "run": WebPage(
        path="runs/{run}",
        template="run",
        section="runs",
        view=lambda read, at, query: run(read, at["run"], query, _rows(query, 100)),
        places=_run_places,
    ),
    "tree": WebPage(
        path="runs/{run}/tree",
        template="tree",
        section="runs",
        view=lambda read, at, _query: tree(read, at["run"]),
        places=_run_places,
    ),
    "node": WebPage(
        path="runs/{run}/nodes/{node}",
        template="node",
        section="runs",
        view=lambda read, at, _query: node(read, at["run"], at["node"]),
        places=_node_places,
    ),
    "diff": WebPage(
        path="runs/{run}/nodes/{node}/diff/{ancestor}",
        template="diff",
        section="runs",
        view=lambda read, at, _query: diff(read, at["run"], at["node"], at["ancestor"]),
        places=_diff_places,
    ),
    "ideas": WebPage(
        path="ideas",
        template="ideas",
        section="ideas",
        view=lambda read, _at, query: ideas(read, query, _rows(query, 100)),
        places=lambda _sources: ({},),
    ),
    "idea": WebPage(
        path="ideas/{idea}",
        template="idea",
        section="ideas",
        view=lambda read, at, _query: idea(read, at["idea"]),
        places=_idea_places,
    ),
    "targets": WebPage(
        path="ideas/{idea}/targets/{one}/{other}",
        template="targets",
        section="ideas",
        view=lambda read, at, _query: targets(read, at["idea"], at["one"], at["other"]),
        places=_target_places,
    ),
    "documents": WebPage(
        path="documents",
        template="documents",
        section="documents",
        view=lambda read, _at, query: documents(read, query, _rows(query, 100)),
        places=lambda _sources: ({},),
    ),
    "document": WebPage(
        path="documents/{document}",
        template="document",
        section="documents",
        view=lambda read, at, _query: document(read, at["document"]),
        places=lambda sources: ({"document": one} for one in sources.addresses.every()),
    ),
    "lessons": WebPage(
        path="lessons",
        template="lessons",
        section="lessons",
        view=lambda read, _at, query: lessons(read, query, _rows(query, 100)),
        places=lambda _sources: ({},),
    ),
    "lesson": WebPage(
        path="lessons/{lesson}",
        template="lesson",
        section="lessons",
        view=lambda read, at, _query: lesson(read, at["lesson"]),
        places=lambda sources: (
            {"lesson": address(one.name)} for one in open_book(sources).entries()
        ),
    ),
    "search": WebPage(
        path="search",
        template="search",
        section="search",
        view=lambda read, _at, query: search(read, query),
    ),
    "suites": WebPage(
        path="suites",
        template="suites",
        section="suites",
        view=lambda read, _at, query: suites(read, query),
        places=lambda _sources: ({},),
    ),
    "suite": WebPage(
        path="suites/{suite}",
        template="suite",
        section="suites",
        view=lambda read, at, _query: suite(read, at["suite"]),
        places=suite_places,
    ),
    "notes": WebPage(
        path="notes",
        template="notes",
        section="notes",
        view=lambda read, _at, _query: notes(read),
        places=lambda _sources: ({},),
    ),
    "compare_nodes": WebPage(
        path="compare/nodes/{run}/{node}/{other}/{second}",
        template="compare_nodes",
        section="runs",
        view=lambda read, at, _query: compare_nodes(read, at),
        places=_pair_places,
    ),
    "compare_runs": WebPage(
        path="compare/runs/{run}/{other}",
        template="compare_runs",
        section="runs",
        view=lambda read, at, _query: compare_runs(read, at["run"], at["other"]),
        places=_run_pair_places,
    ),
}
