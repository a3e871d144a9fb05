"""Compiles what recipes render: C++ by the real compiler, GPU kernels by a dry run with its answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kb.config import shipped_docs
from kb.progress import say
from kb.records.lint import LintFault

if TYPE_CHECKING:
    from kb.progress import Progress
    from search.codegen.selftest import Rendered, Samples
    from search.judging.dryrun.architecture import Architecture
    from search.sandbox.zygote import Zygote

ARCHITECTURE = "sm_90"  # the only one that every GPU recipe is written for
SECONDS = 300.0  # that one compilation may take


def build_faults(
    rendered: Sequence[Rendered], samples: Samples, folder: Path, progress: Progress
) -> list[LintFault]:
    """Return what does not compile; what cannot be compiled here is said on standard error."""
    faults: list[LintFault] = []
    cpp = [one for one in rendered if one.language == "cpp"]
    gpu = [one for one in rendered if one.language in ("triton", "cuda")]
    faults += _cpp(cpp, folder, progress)
    if gpu and find_spec("triton") is None:
        say(f"{len(gpu)} recipes for GPUs were not built: pip install 'kernel-kb[triton]'")
        return faults
    from kb.runtime.nvcc import cuda_home

    if cuda_home() is None and any(one.language == "cuda" for one in gpu):
        lacking = sum(one.language == "cuda" for one in gpu)
        say(f"{lacking} recipes in CUDA C++ were not built: there is no nvcc")
        gpu = [one for one in gpu if one.language != "cuda"]
    faults += _gpu(gpu, samples, folder, progress)
    return faults


def _cpp(rendered: Sequence[Rendered], folder: Path, progress: Progress) -> Iterator[LintFault]:
    from search.languages import LANGUAGES
    from search.sandbox.build import Builder
    from search.sandbox.faults import Fault as Failed
    from search.sandbox.zygote import Zygote

    if not rendered:
        return
    zygote = Zygote()
    builder = Builder(zygote, LANGUAGES.create("cpp"), folder / "native", SECONDS)
    try:
        for number, one in enumerate(rendered):
            progress("compiling C++", number, len(rendered))
            try:
                builder.build(one.source)
            except Failed as fault:
                yield _fault(one, fault)
    finally:
        zygote.close()


def _gpu(
    rendered: Sequence[Rendered], samples: Samples, folder: Path, progress: Progress
) -> Iterator[LintFault]:
    from search.sandbox.faults import Fault as Failed
    from search.sandbox.fork_server import DRY
    from search.sandbox.zygote import Zygote

    if not rendered:
        return
    architecture = _architecture()
    zygote = Zygote(DRY)
    try:
        for number, one in enumerate(rendered):
            progress(f"compiling for {ARCHITECTURE}", number, len(rendered))
            for found in _examine(one, samples, folder, zygote, architecture):
                if isinstance(found, Failed):
                    yield _fault(one, found)
                    break
    finally:
        zygote.close()


def _architecture() -> Architecture:
    from kb.records.library import load_library
    from search.judging.dryrun.architecture import choose_architectures

    (found,) = choose_architectures([ARCHITECTURE], load_library(shipped_docs() / "targets"))
    return found


def _examine(
    one: Rendered, samples: Samples, folder: Path, zygote: Zygote, architecture: Architecture
) -> tuple[object, object]:
    """Return what a candidate compiles to, and what its answers are in the interpreter."""
    from search.judging.dryrun.check import DryCheck
    from search.judging.limits import Limits

    desk = DryCheck(
        samples.problem(one.sample),
        seed=0,
        folder=folder / "dry",
        limits=Limits(build_seconds=SECONDS),
        zygote=zygote,
    )
    try:
        desk.prepare(lambda _: None)
        finding = desk.examine(one.source, [architecture])
        return finding.built[architecture.name], finding.answers
    finally:
        desk.close()


def _fault(one: Rendered, failed: Exception) -> LintFault:
    outcome = getattr(failed, "outcome", None)
    reason = getattr(outcome, "reason", "") or getattr(outcome, "kind", "") or str(failed)
    told = " ".join(str(reason).split())[:400]
    message = f"does not work in {one.language} for {one.sample}: {told}"
    return LintFault(kind="build", path=one.path, message=message)
