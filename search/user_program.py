"""Runs the user's own program, and says in one line what it raised."""

from __future__ import annotations

import linecache
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kb.errors import TaskError
from search.judged import JudgedTask


def execute(task: JudgedTask) -> types.ModuleType:
    """Return the reference as a module that has been run.

    Raises:
        TaskError: it raises; one line says where and what.
    """
    name = f"kb_reference_{task.identity}"
    module = types.ModuleType(name)
    module.__file__ = str(task.reference)
    # dataclasses, pickling of enums and torch.compile look a class's module up by its name.
    sys.modules[name] = module
    linecache.cache[str(task.reference)] = (
        len(task.source),
        None,
        task.source.splitlines(keepends=True),
        str(task.reference),
    )
    with foreign(task, "the reference"):
        exec(compile(task.source, str(task.reference), "exec"), module.__dict__)  # noqa: S102 - the user's own program
    return module


@contextmanager
def foreign(task: JudgedTask, what: str) -> Iterator[None]:
    """Turn what the user's program raises into one line.

    Args:
        what: of the program is run, for the message.

    Raises:
        TaskError: it raised.
        torch.OutOfMemoryError: the device has no memory left; the caller knows what else may be tried.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reference's own business
            yield
    except (TaskError, torch.OutOfMemoryError):
        raise
    except MemoryError as error:
        raise TaskError(
            f"{task.reference}: {what} needs more memory than this machine has: make the inputs smaller"
        ) from error
    except (Exception, SystemExit) as error:
        first = (str(error).strip().splitlines() or [""])[0]
        if "can't allocate memory" in first or "not enough memory" in first:
            raise TaskError(
                f"{task.reference}: {what} needs more memory than this machine has ({first}): make the inputs smaller"
            ) from error
        line = _line_of(error, str(task.reference))
        where = f" at line {line}" if line else ""
        raise TaskError(
            f"{task.reference}: {what} raised {type(error).__name__}{where}: {first}: mend the reference"
        ) from error


def _line_of(error: BaseException, path: str) -> int | None:
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
