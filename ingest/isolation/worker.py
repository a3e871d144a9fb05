"""The process in which documents of strangers are parsed: one file after the other, with limits.

It is started by `ingest.isolation.pool`, asked through its standard input (one JSON object a line) and
answers through its standard output (the length in eight bytes, then JSON).
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from ingest.chunking.split import split
from ingest.document import read_document
from ingest.isolation.injection_scan import SUSPICIOUS, suspicions
from ingest.sources.archives import unpack
from ingest.sources.files import read_bytes
from kb.errors import RecordError
from kb.store.documents import Piece
from kb.tokens import count_tokens

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_FILES = 64


def main() -> None:
    """Answer until the standard input ends."""
    system = ctypes.CDLL(None)
    if hasattr(system, "prctl"):  # Linux: elsewhere the end of the standard input is heard later
        system.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Whatever a library prints must not stand between two answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the write instead of the end
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    count_tokens("")  # its ranks may have to be unpacked first, which writes a file
    _send(answers, b"ready")
    for line in sys.stdin.buffer:
        _send(answers, _answer(json.loads(line)))


def _send(answers: BinaryIO, answer: bytes) -> None:
    answers.write(len(answer).to_bytes(8, "little"))
    answers.write(answer)
    answers.flush()


def _answer(request: dict[str, Any]) -> bytes:
    _limit(request["memory"], request["seconds"], request["written"])
    try:
        if request["do"] == "unpack":
            return _json(unpack(Path(request["path"]), Path(request["into"])))
        return _read(request)
    except RecordError as error:
        reason = str(error)
    except MemoryError:
        reason = f"expected at most {request['memory'] >> 20} MiB of memory, needs more: split it"
    except RecursionError:
        reason = "it is nested too deeply to be read: flatten it"
    except Exception as error:  # noqa: BLE001 - parsers of others, fed by strangers
        reason = (
            f"its reader fails ({type(error).__name__}: {_line(error)}): leave it out or convert it"
        )
    return json.dumps({"refused": reason}).encode()


def _read(request: dict[str, Any]) -> bytes:
    path = Path(request["path"])
    shown = request["shown"]
    try:
        reading = read_document(read_bytes(path), shown)
    except RecordError as error:
        raise RecordError(str(error).removeprefix(f"{shown}: ")) from error
    pieces = tuple(_flagged(piece) for piece in split(reading.sections, count_tokens))
    return _json((reading, pieces))


def _flagged(piece: Piece) -> Piece:
    if SUSPICIOUS in piece.flags or not suspicions(piece.text):
        return piece
    return replace(piece, flags=(*piece.flags, SUSPICIOUS))


def _json(value: object) -> bytes:
    from pydantic_core import to_json

    return b'{"done":' + to_json(value) + b"}"


def _limit(memory: int, seconds: int, written: int) -> None:
    """Bound one request; only the soft limits, so that the next request may have others."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory, most))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, most))
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    # The parent watches the clock; this is for the day that the parent is gone.
    spent = int(used.ru_utime + used.ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds + 5, most))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


if __name__ == "__main__":
    main()
