"""The command line.

``kb judge`` runs where nothing but torch is installed, so nothing is imported before it is known
which command was typed.
"""

from __future__ import annotations

import gc
import os
import sys

from kb.bytecode import keep_bytecode
from kb.errors import KbError, ToolchainError
from kb.threads import wait_briefly
from kb.visible import guard_output, visible


def main() -> None:
    """Run the command line; what the user can mend is one line and an exit code."""
    try:
        keep_bytecode()
        wait_briefly()  # before torch is imported
        guard_output()
        if sys.argv[1:2] == ["judge"]:
            from kb.cli.judge import judge

            sys.exit(judge(sys.argv[2:]))
        _commands()
    except KbError as error:
        sys.stderr.write(f"kb: error: {visible(str(error))}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("kb: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) went away: that is not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    finally:
        # Taking torch apart for the collector would take a second, just before all of it goes.
        gc.freeze()


def _commands() -> None:
    try:
        import typer  # noqa: F401 - only the judge does without
    except ModuleNotFoundError as error:
        raise ToolchainError(
            f"expected {error.name}, which every command but `kb judge` needs, found none: "
            "this is an installation for judging only; install all of kb with its dependencies"
        ) from error
    from kb.cli.commands import app

    app()
