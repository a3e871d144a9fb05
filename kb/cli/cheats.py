"""kb doctor --cheats: the judge's corpus on this machine, with progress and a table."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kb.cli.render.output import print_json, steps
from kb.errors import ConfigError
from kb.progress import say

if TYPE_CHECKING:
    from search.judging.corpus.cases import Case
    from search.judging.corpus.run import CaseResult


def judge_corpus(only: Sequence[str], *, json: bool) -> None:
    """Judge every candidate of the corpus, on the processor and on the GPU where there is one.

    Raises:
        typer.Exit: with 1, where one did not end as it should.
        ConfigError: `only` fits none.
    """
    from search.judging.corpus.cases import choose_cases
    from search.judging.corpus.run import CorpusRunner, devices, line

    chosen = {device: choose_cases(device, only) for device in devices()}
    if "cuda" not in chosen:
        say("no NVIDIA device with Triton here: the corpus of the processor alone")
    if not any(chosen.values()):
        raise ConfigError(
            f"--only {' '.join(only)}: no case of the corpus is called so: try 'cheats/*'"
        )
    verdicts: list[tuple[str, CaseResult]] = []
    with tempfile.TemporaryDirectory(prefix="kb-corpus-") as folder, steps() as progress:
        for device, cases in chosen.items():
            with CorpusRunner(device, Path(folder) / device) as corpus_judge:
                for number, case in enumerate(cases):
                    progress(f"{device} {case.label}", number, len(cases))
                    verdicts.append((device, corpus_judge.judge(case)))
                    if not json:
                        typer.echo(f"{device:<5}{line(verdicts[-1][1])}")
    if json:
        print_json([{"device": device, **verdict.to_json()} for device, verdict in verdicts])
    wrong = sum(bool(verdict.complaint) for _, verdict in verdicts)
    say(_summary([verdict.case for _, verdict in verdicts], wrong))
    if wrong:
        raise typer.Exit(1)


def _summary(cases: Sequence[Case], wrong: int) -> str:
    counts = {group: sum(case.group == group for case in cases) for group in ("cheats", "honest")}
    faults = len(cases) - sum(counts.values())
    judged = f"{counts['cheats']} cheats, {counts['honest']} honest candidates and {faults} faults"
    if not wrong:
        return f"{judged}: all ended as they should"
    return f"{judged}: {wrong} did not end as they should, see the lines marked FAIL"
