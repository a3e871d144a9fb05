"""Who may talk to the server: exact hosts and origins, one token, and headers that bind browsers.

Pages hold what models and documents wrote, and other pages in the same browser are strangers. A request
whose Host is not this server's is refused (a name that was made to point here gets nothing), one that
writes must come from this origin with a header that only a script of this origin can add.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
COOKIE = "kb-token"
WRITES = "X-KB-Write"  # a form of another origin cannot send it without being asked first
LOGIN = "/login"
_MOST_BODY = 256 << 10  # bytes of a request that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Where the server answers, and to whom.

    Attributes:
        hosts: exact values of Host that are answered, e.g. ``127.0.0.1:8321``.
        token: that every request must show; None where the machine's own users are trusted.
        pass_word: that requests which write must show besides; pages of this server know it.
    """

    hosts: frozenset[str]
    token: str | None = None
    pass_word: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def origins(self) -> frozenset[str]:
        """Origins of pages that may ask."""
        return frozenset(f"http://{host}" for host in self.hosts)


class Guard:
    """Refuses what is not for this server, and puts its headers on every answer."""

    def __init__(self, app: ASGIApp, doors: Doors) -> None:
        self._app = app
        self._doors = doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets here

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                own = {**HEADERS, "Cache-Control": "no-cache"}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), value.encode())
                        for name, value in own.items()
                        if name.lower().encode() not in names
                    ),
                ]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None and scope["path"] == LOGIN and scope["method"] == "POST":
            refusal = await self._log_in(receive)
        await (refusal or self._app)(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return why a request is not answered, None where it is."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._doors.hosts:
            return _no(421, "this server answers under its own address only")
        if self._is_stranger(headers, scope["method"]):
            return _no(403, "a page of another origin asked for this")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _no(405, "pages are read by GET, notes are written by POST")
        if scope["path"] == LOGIN:
            return None
        return self._unknown(headers) or self._unwritten(headers, scope["method"])

    def _is_stranger(self, headers: Headers, method: str) -> bool:
        """Say whether a page of another origin asks; that one follows a link is none of it."""
        origin = headers.get("origin")
        if origin is not None and origin not in self._doors.origins:
            return True
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return False
        return method != "GET" or headers.get("sec-fetch-mode") != "navigate"

    def _unwritten(self, headers: Headers, method: str) -> Response | None:
        given = headers.get(WRITES.lower(), "")
        if method == "POST" and (
            "origin" not in headers or not _same(given, self._doors.pass_word)
        ):
            return _no(403, f"what writes must come from a page of this server, with {WRITES}")
        return None

    def _unknown(self, headers: Headers) -> Response | None:
        if self._known(headers):
            return None
        return RedirectResponse(LOGIN, 303) if _wants_page(headers) else _no(401, "token wanted")

    def _known(self, headers: Headers) -> bool:
        if self._doors.token is None:
            return True
        shown = [headers.get("authorization", "").removeprefix("Bearer "), *_cookies(headers)]
        return any(_same(one, self._doors.token) for one in shown)

    async def _log_in(self, receive: Receive) -> Response:
        given = parse_qs((await read_body(receive)).decode("utf-8", "replace")).get("token", [""])[
            0
        ]
        if self._doors.token is None or not _same(given.strip(), self._doors.token):
            return _no(403, "that is not the token which `kb serve` printed")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self._doors.token, httponly=True, samesite="strict")
        return answer


async def read_body(receive: Receive) -> bytes:
    """Return the body of a request, cut to what a note can be."""
    body = b""
    while len(body) < _MOST_BODY:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body[:_MOST_BODY]


def _cookies(headers: Headers) -> Iterable[str]:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return []
    return [cookies[COOKIE].value] if COOKIE in cookies else []


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _wants_page(headers: Headers) -> bool:
    return "text/html" in headers.get("accept", "") and "hx-request" not in headers


def _no(status: int, why: str) -> Response:
    return PlainTextResponse(f"refused: {why}\n", status)
