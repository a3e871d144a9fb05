"""Starts the server: on this machine alone, unless somebody says otherwise."""

from __future__ import annotations

import gc
import ipaddress
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from kb.config import Home
from kb.errors import ConfigError, KbError, ToolchainError
from kb.web.sources import Sources, open_sources

OPEN = "--without-token"


def serve(
    home: Home, host: str, port: int, *, without_token: bool, say: Callable[[str], None]
) -> None:
    """Answer until interrupted.

    Args:
        port: 0 for a free one.
        without_token: let everybody in who reaches an address that is not this machine's alone.
        say: tells where to look.

    Raises:
        ConfigError: the address cannot be used.
        ToolchainError: the web server is not installed.
    """
    try:
        import uvicorn

        from kb.web.app import make_app
        from kb.web.guard import Doors
    except ModuleNotFoundError as error:
        raise ToolchainError(
            f"expected {error.name}, which the server needs, found none: pip install kernel-kb[web] "
            "(kb site writes the same pages as files without it)"
        ) from error
    alone = is_loopback(host)
    token = None if alone or without_token else secrets.token_urlsafe(24)
    taken = _listen(host, port)
    number = taken.getsockname()[1]
    doors = Doors(hosts=hosts(host, number), token=token)
    sources = open_sources(home)
    say(f"runs of {home.root}: http://{_shown(host)}:{number}/  (Ctrl-C ends)")
    if token is not None:
        say(f"token: {token}")
    elif not alone:
        say(f"{OPEN}: whoever reaches this address reads every run and may write notes")
    # What is read of runs stays: looking through it again and again finds nothing to free.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    # The first page should not wait for what is read once.
    Thread(target=_look_ahead, args=(sources,), daemon=True).start()
    config = uvicorn.Config(
        make_app(sources, doors), log_level="warning", server_header=False, access_log=False,
        proxy_headers=False, lifespan="off",
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[taken])


def _look_ahead(sources: Sources) -> None:
    """Read the list of runs before somebody asks; what fails here is told to them."""
    from kb.web.skins import environment
    from kb.web.views.home import home

    environment()
    with suppress(KbError):
        home(sources, {})


def is_loopback(host: str) -> bool:
    """Say whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts(host: str, port: int) -> frozenset[str]:
    """Return the values of Host that belong to the server."""
    names = {host}
    if is_loopback(host):
        names |= {"localhost", "127.0.0.1"}
    elif host in ("0.0.0.0", "::"):  # noqa: S104 - what the user typed
        names |= {"localhost", "127.0.0.1", socket.gethostname().lower(), socket.getfqdn().lower()}
        names |= _own_addresses()
    return frozenset(
        with_port
        for name in names
        for with_port in (f"{_shown(name)}:{port}", *([_shown(name)] if port == 80 else []))
    )


def _own_addresses() -> set[str]:
    try:
        return {str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return set()


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # also a name that no host can have
        raise _unusable(host, port, error) from error
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen(128)  # who comes before the server has begun waits a moment
    except (OSError, OverflowError) as error:
        taken.close()
        raise _unusable(host, port, error) from error
    return taken


def _unusable(host: str, port: int, error: Exception) -> ConfigError:
    return ConfigError(
        f"cannot listen on {host}:{port}: {error}: name another --host or --port, 0 for a free port"
    )
