"""Where things are: the folder of the user's data, the cache, and the shipped documents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kb.errors import ConfigError


def shipped_docs() -> Path:
    """Return the folder of the documents that come with `kb` (checkout or installed wheel)."""
    import hardware_docs  # a package only so that the wheel carries it as data

    return Path(next(iter(hardware_docs.__path__)))


def shipped_programs() -> Path:
    """Return the folder of the programs that kernel records tell of, a folder for each (checkout or installed wheel)."""
    installed = Path(__file__).parent / "programs"
    return installed if installed.is_dir() else shipped_docs().parent / "examples" / "kernels"


def user_path(text: str | Path) -> Path:
    """Return a path that the user named, with ``~`` as the home folder that it stands for.

    Raises:
        ConfigError: there is no such home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{text}: expected a user with a home folder after ~, found none: write the whole path"
        ) from error


@dataclass(frozen=True)
class Home:
    """The folder that holds what `kb` keeps for one user or project.

    ``KB_HOME`` names it; without that it is ``.kb`` in the current folder.
    """

    root: Path

    @classmethod
    def find(cls) -> Home:
        """Return the home that the environment names, without making it."""
        return cls(user_path(os.environ.get("KB_HOME") or ".kb").absolute())

    def make(self) -> Home:
        """Create the folder.

        Raises:
            ConfigError: it cannot be made or written.
        """
        try:
            for folder in (self.root, self.lessons):
                folder.mkdir(parents=True, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise ConfigError(
                f"cannot write to {self.root} ({error.strerror}): set KB_HOME to a folder that you may write to"
            ) from error
        return self

    @property
    def database(self) -> Path:
        """The SQLite file with runs, nodes, outcomes, prompts and the manifest of documents."""
        return self.root / "kb.sqlite"

    @property
    def database_url(self) -> str:
        """The URL of the database in use: what ``KB_DATABASE`` says, or that file."""
        from sqlalchemy import URL

        own = URL.create("sqlite", database=str(self.database))
        return os.environ.get("KB_DATABASE") or own.render_as_string()

    @property
    def lessons(self) -> Path:
        """Markdown records that finished runs wrote."""
        return self.root / "lessons"

    @cached_property
    def cache(self) -> Path:
        """What is derived from installed packages and shared by all homes: exported encoders, what torch.compile wrote."""
        return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kb"
