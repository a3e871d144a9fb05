"""A document from an address that the user names: bounded, and never from inside this network.

The address may lead, by its name or by a redirect, to a machine that only this one can reach
(a router, a cloud's metadata service). Every name is resolved first, every address it has must be
public, and the connection is made to the address that was checked.
"""

from __future__ import annotations

import ipaddress
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from ingest.readers import SUFFIXES
from ingest.sources.files import MIB, is_archive, limit_of
from kb.errors import RecordError

if TYPE_CHECKING:
    import httpx

MAX_REDIRECTS = 5
SECONDS = 60  # for one document, all redirects included
_CONNECT_SECONDS = 10
_ARCHIVE_BYTES = 512 * MIB
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# What a server says a document is -> the suffix by which its reader is found.
TYPES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/markdown": ".md",
    "text/x-rst": ".rst",
    "text/plain": ".txt",
    "application/pdf": ".pdf",
    "application/x-ipynb+json": ".ipynb",
    "text/x-python": ".py",
    "text/x-c": ".c",
    "text/x-c++src": ".cpp",
    "application/zip": ".zip",
    "application/x-zip-compressed": ".zip",
    "application/gzip": ".tar.gz",
    "application/x-gzip": ".tar.gz",
    "application/x-tar": ".tar",
    "application/x-xz": ".tar.xz",
}
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream", "text/plain"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One request: the address asked for, and the one that the connection goes to."""

    url: str
    target: str
    host: str
    resolved: bool


def is_url(text: str) -> bool:
    """Say whether `text` is an address of the web."""
    return text.lower().startswith(("http://", "https://"))


def fetch(url: str, into: Path, *, allow_local: bool = False) -> Path:
    """Write what is at `url` into the folder `into`, under a name with its reader's suffix.

    Args:
        allow_local: take addresses of this machine and of private networks too.

    Raises:
        RecordError: it cannot be had, or not within the bounds; the message is the reason.
    """
    import httpx

    deadline = time.monotonic() + SECONDS
    seen = url
    with httpx.Client(follow_redirects=False, timeout=_CONNECT_SECONDS) as client:
        for _ in range(MAX_REDIRECTS + 1):
            with _opened(client, _step(seen, allow_local)) as answer:
                if answer.status_code in _REDIRECTS and "location" in answer.headers:
                    seen = urljoin(seen, answer.headers["location"])
                    continue
                if answer.status_code != 200:
                    raise RecordError(
                        f"expected a document, found status {answer.status_code}: check the address"
                    )
                return _save(answer, seen, into, deadline)
    raise RecordError(
        f"expected at most {MAX_REDIRECTS} redirects, found more: give the last address"
    )


@contextmanager
def _opened(client: httpx.Client, step: _Step) -> Iterator[httpx.Response]:
    import httpx

    headers = {"Accept-Encoding": "gzip, deflate", "User-Agent": "kernel-kb"}
    extensions = {}
    if step.resolved:
        headers["Host"] = step.host
        # The certificate is to be the name's, though the connection goes to its address.
        extensions["sni_hostname"] = urlsplit(step.url).hostname or ""
    try:
        with client.stream("GET", step.target, headers=headers, extensions=extensions) as answer:
            yield answer
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise RecordError(f"cannot be fetched ({reason}): check the address") from error


def _step(url: str, allow_local: bool) -> _Step:
    """Check an address, and replace the name in it by an address that was checked.

    Raises:
        RecordError: it is none of the web, or leads into a private network.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise RecordError(f"expected an address, found one with {error}: check it") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise RecordError("expected an address of http or https, found another: fetch it yourself")
    if parts.username is not None:
        raise RecordError("expected an address without a password, found one: fetch it yourself")
    plain = _Step(url=url, target=url, host=host, resolved=False)
    if allow_local:
        return plain
    addresses = _addresses(host, port or (443 if parts.scheme == "https" else 80))
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        # The proxy resolves names; what this machine knows of the name is checked all the same.
        _refuse_private(host, addresses)
        return plain
    if not addresses:
        raise RecordError(f"no machine is called {host}: check the address and the network")
    _refuse_private(host, addresses)
    literal = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
    netloc = literal if port is None else f"{literal}:{port}"
    name = f"[{host}]" if ":" in host else host
    return _Step(
        url=url,
        target=parts._replace(netloc=netloc, fragment="").geturl(),
        host=name if port is None else f"{name}:{port}",
        resolved=True,
    )


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(place[0]) for *_, place in found]


def _refuse_private(host: str, addresses: list[str]) -> None:
    for address in addresses:
        parsed = ipaddress.ip_address(address.partition("%")[0])
        inner = getattr(parsed, "ipv4_mapped", None) or parsed
        if not inner.is_global or inner.is_multicast:
            found = host if host == address else f"{host} at {address}"
            raise RecordError(
                f"expected a public address, found {found}: give --allow-local if you mean it"
            )


def _save(answer: httpx.Response, url: str, into: Path, deadline: float) -> Path:
    name = _name(answer.headers.get("content-type", ""), url)
    limit = _ARCHIVE_BYTES if is_archive(name) else limit_of(Path(name))
    path = into / name
    size = 0
    with path.open("xb") as file:
        for part in answer.iter_bytes(64 * 1024):
            size += len(part)
            if size > limit:
                raise RecordError(f"expected at most {limit // MIB} MiB, found more: split it")
            if time.monotonic() > deadline:
                raise RecordError(
                    f"expected an answer within {SECONDS} s, found none: fetch it yourself"
                )
            file.write(part)
    return path


def _name(kind: str, url: str) -> str:
    """Return a file's name: the address's own, with the suffix that the server's type asks for."""
    kind = kind.partition(";")[0].strip().lower()
    last = PurePosixPath(unquote(urlsplit(url).path)).name
    clean = "".join(one if one.isalnum() or one in "._-+" else "_" for one in last)[-120:]
    known = is_archive(clean) or Path(clean).suffix.lower() in SUFFIXES
    if kind in _VAGUE and known:
        return clean
    suffix = TYPES.get(kind)
    if suffix is None:
        if kind in _VAGUE:
            raise RecordError(
                "expected a document, found no type that names one: fetch it yourself"
            )
        raise RecordError(f"no reader for {kind}: fetch it yourself and convert it")
    if clean.lower().endswith(suffix) or (known and _same(clean, suffix)):
        return clean
    return f"{clean or 'index'}{suffix}"


def _same(name: str, suffix: str) -> bool:
    """Say whether a name's own suffix has the reader that `suffix` has."""
    return SUFFIXES.get(Path(name).suffix.lower(), name) == SUFFIXES.get(suffix)
