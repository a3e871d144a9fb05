"""kb judge: judges what others put into a folder. Needs the standard library and torch."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kb.config import Home
from kb.errors import ConfigError

EXAMPLES = """examples:
  kb judge /mnt/spool                 serve a shared folder until Ctrl-C
  kb judge spool --once --json        judge what is there, then end; one JSON object a job

Run only references and candidates of people whom you would let run programs here: a candidate is
confined, a reference is not. Exit codes: 0 done; 2 something you can mend; 130 stopped."""
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    from search.judging.spool.server import LEASE

    options = argparse.ArgumentParser(
        prog="kb judge",
        description="Judge the candidates that `kb evolve --spool FOLDER` puts into FOLDER, on this machine's device.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "folder", type=Path, help="the spool folder: shared, or copied here and back"
    )
    options.add_argument("--once", action="store_true", help="end when nothing is left to judge")
    options.add_argument(
        "--json", action="store_true", help="print one JSON object a job, and one at the end"
    )
    options.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: the GPU where there is one",
    )
    options.add_argument(
        "--lease", type=float, default=LEASE, metavar="SECONDS",
        help="a judge that is silent for so long loses its job to another (default %(default)g)",
    )  # fmt: skip
    return options


def judge(arguments: Sequence[str]) -> int:
    """Serve a spool folder; return the exit code.

    Raises:
        KbError: the folder, the device or torch is missing.
    """
    options = parser().parse_args(arguments)
    if options.lease <= 0:
        raise ConfigError(
            f"--lease takes seconds above 0, found {options.lease:g}: e.g. --lease 60"
        )
    if not options.folder.is_dir():
        raise ConfigError(
            f"the spool folder {options.folder} does not exist: mount it, or make it with mkdir"
        )
    cache = Home.find().make().root / "cache"
    server = _server(options, cache)
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        server.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    tally = server.run(once=options.once)
    _print(
        {"end": "stopped" if stopped else "done", **asdict(tally)}, _summary, as_json=options.json
    )
    return INTERRUPTED if stopped else 0


def _server(options: argparse.Namespace, cache: Path) -> Any:
    from search.judging.spool.folder import Folder
    from search.judging.spool.judge_process import JudgeProcess
    from search.judging.spool.server import SpoolServer

    return SpoolServer(
        Folder(options.folder.absolute()),
        lambda tick: JudgeProcess(options.device, cache, _say, tick),
        say=_say,
        report=lambda line: _print(line, _line, as_json=options.json),
        lease=options.lease,
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _print(
    values: Mapping[str, Any], text: Callable[[Mapping[str, Any]], str], *, as_json: bool
) -> None:
    sys.stdout.write((json.dumps(values) if as_json else text(values)) + "\n")
    sys.stdout.flush()


def _line(values: Mapping[str, Any]) -> str:
    kind = str(values["kind"]).replace("_", " ")
    return (
        f"{values['job'][:16]}  {kind:<12} {values['seconds']:6.1f} s  {values['detail']}".rstrip()
    )


def _summary(values: Mapping[str, Any]) -> str:
    counts = ", ".join(
        f"{count} {kind.replace('_', ' ')}" for kind, count in values["kinds"].items()
    )
    return f"{values['end']}: {counts or 'nothing to judge'}"
