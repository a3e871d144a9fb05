"""Runs as a folder of pages for any static server, or for the file system: the pages of `kb serve`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kb import __version__
from kb.errors import ConfigError, StoreError
from kb.progress import Progress, silent
from kb.web.links import Filed, file_name
from kb.web.pages import PAGES, WHOLE, WebPage
from kb.web.skins import STATIC, render
from kb.web.sources import Sources
from kb.web.trials import Trials

MARK = ".kb-site"  # names the files that were written, so that the next writing may replace them
_SHARED = ("kb.css", "kb.js", "kb.svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a site has."""

    pages: int
    bytes: int


def write_site(
    sources: Sources, out: Path, runs: Sequence[str] = (), progress: Progress = silent
) -> Written:
    """Write a site into `out`.

    Args:
        out: a folder that is not there, is empty, or holds a site that was written before.
        runs: that it tells of; all where none are named.

    Raises:
        ConfigError: the folder holds something else, or cannot be written.
        StoreError: there is no such run.
    """
    sources = _chosen(sources, runs)
    before = _known(out)
    places = list(_places(sources))
    pages = frozenset(file_name(*page.parts(at)) for page, at in places)
    files = {MARK, *pages, *(f"static/{name}" for name in _SHARED)}
    size = 0
    try:
        (out / "static").mkdir(parents=True, exist_ok=True)
        _mark(out, before | files)  # first: a writing that is broken off may be written over
        for number, (page, at) in enumerate(places):
            progress("writing pages", number, len(places))
            size += _write(out / file_name(*page.parts(at)), _page(sources, page, at, pages))
        for name in _SHARED:
            shutil.copyfile(STATIC / name, out / "static" / name)
        for name in before - files:
            (out / name).unlink(missing_ok=True)
        _mark(out, files)
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename or out}: {error.strerror}: name a folder that can be written"
        ) from error
    return Written(pages=len(places), bytes=size)


def _chosen(sources: Sources, runs: Sequence[str]) -> Sources:
    if not runs:
        return sources
    known = {brief.run for brief in sources.stories.briefs()}
    for name in runs:
        if name not in known:
            raise StoreError(f"no run {name!r} on record: kb runs lists all")
    stories = sources.stories.only(frozenset(runs))
    return replace(sources, stories=stories, trials=Trials(sources.reader, stories))


def _known(out: Path) -> set[str]:
    """Return the files of a site that was written here before."""
    if not out.exists():
        return set()
    mark = out / MARK
    if mark.is_file():
        named = mark.read_text(encoding="utf-8").split("\n")
        return {
            name for name in named if name and (out / name).resolve().is_relative_to(out.resolve())
        }
    if not out.is_dir() or any(out.iterdir()):
        raise ConfigError(
            f"{out}: expected a new or empty folder, or a site that kb wrote, found something else: "
            "name another"
        )
    return set()


def _mark(out: Path, names: Iterable[str]) -> None:
    (out / MARK).write_text("\n".join(sorted(names)) + "\n", encoding="utf-8")


def _places(sources: Sources) -> Iterator[tuple[WebPage, Mapping[str, str]]]:
    for page in PAGES.values():
        for at in page.places(sources):
            yield page, at


def _page(sources: Sources, page: WebPage, at: Mapping[str, str], pages: frozenset[str]) -> str:
    depth = max(0, len(page.parts(at)) - 1)
    return render(
        page.template,
        Filed(depth, pages),
        view=page.view(sources, at, WHOLE),
        section=page.section,
        served=False,
        now=time.time(),
        version=__version__,
        pass_word="",
    )


def _write(path: Path, text: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8", "replace")
    path.write_bytes(data)
    return len(data)
