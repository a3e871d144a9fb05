"""What the user can mend: each error is one line, and carries the exit code of the command."""

from __future__ import annotations


class KbError(Exception):
    """Something that the user can mend.

    The message is one line: what was expected, what was found, what would do.
    """

    exit_code = 2


class ConfigError(KbError):
    """A setting, an option or an environment variable cannot be used."""


class TaskError(KbError):
    """A task file or its reference cannot be used."""


class RecordError(KbError):
    """A knowledge record breaks the schema."""


class StoreError(KbError):
    """The knowledge base or the record of runs cannot be read or written."""


class ConnectionLost(StoreError):
    """The database server ended the connection or cannot be reached; later it may be there again."""


class ModelError(KbError):
    """A language model cannot be reached, or its reply cannot be used.

    Attributes:
        lost: tokens of answers that broke off, which were paid for all the same.
    """

    lost = 0


class ToolchainError(KbError):
    """A compiler, a device or a part of the sandbox is missing."""


class NoRecipe(KbError):
    """The offline author knows no recipe for an operator of the task."""

    exit_code = 3
