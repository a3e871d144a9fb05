from __future__ import annotations

import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ingest.collect import gathered
from ingest.isolation.pool import Confined
from ingest.sources import fetch as module
from ingest.sources.fetch import fetch
from kb.errors import RecordError

TEXT = b"# Tiles\n\nA tile is kept in shared memory.\n"


def _zip() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("in/x.md", TEXT)
    return data.getvalue()


PAGES: dict[str, tuple[str, bytes]] = {
    "/guide.md": ("text/plain; charset=utf-8", TEXT),
    "/page": ("text/html; charset=utf-8", b"<h1>Tiles</h1><p>Kept in shared memory.</p>"),
    "/notes": ("text/markdown", TEXT),
    "/kernel.cu": ("application/octet-stream", b"__global__ void k() {}\n"),
    "/docs.zip": ("application/zip", _zip()),
    "/picture": ("image/png", b"\x89PNG"),
    "/blob": ("application/octet-stream", b"\0\0"),
    "/large.md": ("text/markdown", b"x" * (9 << 20)),
}


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        hops = {"/once": "/guide.md", "/round": "/round", "/inside": "http://10.0.0.1/x"}
        if self.path in hops:
            self.send_response(302)
            self.send_header("Location", hops[self.path])
            self.end_headers()
        elif self.path == "/slow":
            self.send_response(200)
            self.send_header("Content-Type", "text/markdown")
            self.end_headers()
            while True:  # one byte at a time, for ever
                try:
                    self.wfile.write(b"x" * 70_000)
                except OSError:
                    return
        elif self.path in PAGES:
            kind, data = PAGES[self.path]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                return  # the reader has had enough
        else:
            self.send_error(404)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/guide.md", "guide.md"),
        ("/page", "page.html"),
        ("/notes", "notes.md"),
        ("/kernel.cu", "kernel.cu"),
        ("/docs.zip", "docs.zip"),
        ("/once", "guide.md"),
    ],
)
def test_a_document_is_fetched_under_its_readers_suffix(
    site: str, tmp_path: Path, path: str, name: str
) -> None:
    found = fetch(f"{site}{path}", tmp_path, allow_local=True)
    assert found == tmp_path / name
    assert found.stat().st_size > 0


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/nothing", "found status 404"),
        ("/round", "at most 5 redirects"),
        ("/picture", "no reader for image/png"),
        ("/blob", "found no type that names one"),
        ("/large.md", "at most 8 MiB, found more"),
    ],
)
def test_what_cannot_be_had_is_one_line(site: str, tmp_path: Path, path: str, reason: str) -> None:
    with pytest.raises(RecordError, match=reason) as caught:
        fetch(f"{site}{path}", tmp_path, allow_local=True)
    assert "\n" not in str(caught.value)


def test_an_answer_that_never_ends_is_given_up(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0)
    with pytest.raises(RecordError, match="within 0 s"):
        fetch(f"{site}/slow", tmp_path, allow_local=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:8080/x",
        "http://[::1]/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:127.0.0.1]/",
        "http://0.0.0.0/",
        "http://2130706433/",  # 127.0.0.1 as one number
    ],
)
def test_addresses_of_this_network_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(RecordError, match="expected a public address, found"):
        fetch(url, tmp_path)


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in addresses]
    monkeypatch.setattr(module.socket, "getaddrinfo", lambda *_, **__: found)


def test_a_name_with_one_private_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(monkeypatch, "93.184.215.14", "10.0.0.1")
    with pytest.raises(RecordError, match=r"found docs\.example at 10\.0\.0\.1: "):
        fetch("http://docs.example/", tmp_path)


def test_the_connection_goes_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve(monkeypatch, "93.184.215.14")
    step = module._step("https://docs.example:8443/a?b=c#d", allow_local=False)
    assert step.target == "https://93.184.215.14:8443/a?b=c"
    assert step.host == "docs.example:8443"


def test_a_redirect_into_this_network_is_refused(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module._step
    # The first step is let through to the server of this test, the next is judged as ever.
    monkeypatch.setattr(
        module, "_step", lambda url, local: real(url, local or url.startswith(site))
    )
    with pytest.raises(RecordError, match=r"found 10\.0\.0\.1: "):
        fetch(f"{site}/inside", tmp_path)


@pytest.mark.parametrize(
    "url",
    ["https://user:secret@docs.example/", "https:///x", "http://[bad/", "https://x:99999999/"],
)
def test_odd_addresses_are_one_line(tmp_path: Path, url: str) -> None:
    with pytest.raises(RecordError) as caught:
        fetch(url, tmp_path)
    assert "secret" not in str(caught.value)


def test_addresses_are_sources_and_archives_at_them_are_opened(site: str, desk: Confined) -> None:
    sources = [f"{site}/page", f"{site}/docs.zip", f"{site}/nothing"]
    with gathered(sources, desk, allow_local=True) as found:
        page, member, missing = list(found)
        assert desk.read(page).reading.title == "Tiles"
        assert desk.read(member).reading.title == "Tiles"
    assert page.identity == f"{site}/page"
    assert member.identity == f"{site}/docs.zip!/in/x.md"
    assert (missing.identity, missing.reason) == (
        f"{site}/nothing",
        "expected a document, found status 404: check the address",
    )
