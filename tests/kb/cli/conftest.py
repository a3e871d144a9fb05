from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from warm_kb import WARM, WarmProcess

KB = Path(sys.executable).parent / "kb"
MODEL_VARIABLES = ("KB_MODEL", "KB_BASE_URL", "KB_API_KEY", "OPENAI_API_KEY", "KB_DATABASE")


class Shell:
    """Runs `kb` as a user does, in a folder and a home of its own.

    The imports of commands are shared, see `warm_kb`; `command` is what a user types.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        env = {name: value for name, value in os.environ.items() if name not in MODEL_VARIABLES}
        self.env = {**env, "KB_HOME": str(home)}

    def command(self, *arguments: object) -> list[str]:
        return [str(KB), *map(str, arguments)]

    def start(self, *arguments: object) -> WarmProcess | subprocess.Popen[str]:
        """Start a command that can be interrupted, in a process group of its own.

        What runs in the background of a shell without job control ignores Ctrl-C, and so would its
        children.
        """
        if WARM.takes(self.env):
            return WARM.start(self.command(*arguments), cwd=self.folder, env=self.env)
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
        )

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.start(*arguments)
        texts = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, *texts)


@pytest.fixture
def bare_shell(tmp_path: Path) -> Shell:
    """A shell over an empty home, for commands that ask the knowledge base nothing."""
    return Shell(tmp_path, tmp_path / "home")


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the shipped documents indexed, made once for all processes of a test run."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "indexed"
    folder.mkdir(exist_ok=True)
    shell = Shell(folder, folder / "home")
    with FileLock(folder / "lock"):
        if not (folder / "made").exists():
            done = shell("init", "--json")
            assert done.returncode == 0, done.stderr
            (folder / "made").touch()
    return shell.home


@pytest.fixture(scope="session")
def make_shell(indexed: Path, builds: Path, tmp_path_factory: pytest.TempPathFactory):
    """Return a function that makes a fresh home with the shipped documents and shared builds in it."""

    def make() -> Shell:
        folder = tmp_path_factory.mktemp("user")
        shutil.copytree(indexed, folder / "home")
        (folder / "home" / "cache").symlink_to(builds)
        return Shell(folder, folder / "home")

    return make
