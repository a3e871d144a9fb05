"""Public documentation that this machine has from packages: what is here, in which version."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from benchmarks.retrieval.docstrings import header_page, python_page
from kb.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A package with documentation.

    Attributes:
        name: of the folder of its pages, by which answers refer to them.
        package: its name in the package index, or of the Debian package.
        debian: it is a Debian package of HTML pages, not a Python one.
        root: folder of the pages or modules below the package's root.
        files: patterns below `root`.
        version: to fetch, where the latest will not do.
    """

    name: str
    package: str
    root: str
    files: tuple[str, ...]
    debian: bool = False
    version: str | None = None


SOURCES = (
    Source(
        name="triton",
        package="triton",
        root="triton",
        files=(
            *("language/core.py", "language/standard.py", "language/math.py", "language/random.py"),
            *("testing.py", "runtime/autotuner.py", "runtime/jit.py"),
        ),
    ),
    Source(
        name="torch",
        package="torch",
        root="torch",
        files=(
            *("nn/functional.py", "nn/attention/__init__.py", "nn/attention/flex_attention.py"),
            *("cuda/graphs.py", "cuda/streams.py", "cuda/memory.py", "utils/cpp_extension.py"),
            *("utils/benchmark/utils/timer.py", "utils/checkpoint.py", "profiler/profiler.py"),
            *("compiler/__init__.py", "library.py", "_library/custom_ops.py", "__init__.py"),
            *("_tensor_docs.py",),
        ),
    ),
    Source(
        name="jax",
        package="jax",
        root="jax/_src",
        files=(
            *("pallas/core.py", "pallas/pallas_call.py", "pallas/primitives.py"),
            *("pallas/helpers.py", "pallas/triton/*.py", "pallas/mosaic_gpu/core.py"),
            *("pallas/mosaic_gpu/primitives.py", "pallas/mosaic_gpu/pipeline.py", "api.py"),
            *("lax/control_flow/loops.py", "ad_checkpoint.py"),
        ),
    ),
    Source(
        name="cutlass",
        package="nvidia-cutlass-dsl",
        version="4.3.0",  # later ones carry the modules compiled, without their docstrings
        root="nvidia_cutlass_dsl/python_packages/cutlass/cute",
        files=("core.py", "algorithm.py", "math.py", "tensor.py", "arch/*.py", "runtime.py"),
    ),
    Source(
        name="cuda",
        package="nvidia-cuda-runtime-cu12",
        root="nvidia/cuda_runtime/include",
        files=("cuda_runtime_api.h",),
    ),
    Source(
        name="numba",
        package="numba-doc",
        root="usr/share/doc/numba-doc/html",
        files=(
            *("cuda/*.html", "cuda-reference/host.html", "cuda-reference/kernel.html"),
            *("cuda-reference/memory.html", "user/*.html"),
        ),
        debian=True,
    ),
    Source(
        name="pyopencl",
        package="python-pyopencl-doc",
        root="usr/share/doc/python-pyopencl-doc/html",
        files=("*.html",),
        debian=True,
    ),
    Source(
        name="llvm",
        package="llvm-14-doc",
        root="usr/share/doc/llvm-14-doc/html",
        files=("Vectorizers.html", "NVPTXUsage.html", "CompileCudaWithLLVM.html"),
        debian=True,
    ),
    Source(
        name="clang",
        package="clang-14-doc",
        root="usr/share/doc/clang-14/html",
        files=("*Sanitizer.html", "OpenMPSupport.html"),
        debian=True,
    ),
)
_LEFT_OUT = ("genindex.html", "search.html", "py-modindex.html", "index.html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A package that was found.

    Attributes:
        root: folder below which its files lie.
    """

    source: Source
    version: str
    root: Path


def locate(packages: Path) -> tuple[list[Corpus], list[Source]]:
    """Find the packages: installed ones first, then those that `fetch` unpacked into `packages`.

    Returns:
        What is here, and what is missing.
    """
    found: list[Corpus] = []
    missing: list[Source] = []
    for source in SOURCES:
        corpus = _installed(source) or _unpacked(source, packages)
        if corpus is None:
            missing.append(source)
        else:
            found.append(corpus)
    return found, missing


def write_pages(corpora: list[Corpus], folder: Path) -> int:
    """Write the pages of `corpora` to `folder` anew and return how many.

    Raises:
        ConfigError: a package has none of the files that it should have.
    """
    shutil.rmtree(folder, ignore_errors=True)
    count = 0
    for corpus in corpora:
        before = count
        for path in _files(corpus):
            relative = path.relative_to(corpus.root / corpus.source.root)
            page = folder / corpus.source.name / relative
            page.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".html":
                shutil.copyfile(path, page)
            else:
                text = _page(corpus.source, path, relative)
                page.with_suffix(".md").write_text(text, encoding="utf-8")
            count += 1
        if count == before:
            raise ConfigError(
                f"{corpus.source.package} {corpus.version}: expected {corpus.source.files[0]} "
                f"below {corpus.root / corpus.source.root}, found none: take another version"
            )
    return count


def _page(source: Source, path: Path, relative: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".h":
        return header_page(path.name, text)
    parts = [part for part in relative.with_suffix("").parts if part != "__init__"]
    return python_page(".".join((source.name, *parts)), text)


def _files(corpus: Corpus) -> Iterator[Path]:
    root = corpus.root / corpus.source.root
    for pattern in corpus.source.files:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and path.name not in _LEFT_OUT:
                yield path


def _installed(source: Source) -> Corpus | None:
    if source.debian:
        root = Path("/")
        status = Path("/var/lib/dpkg/status.d") / source.package
        there = (root / source.root).is_dir()
        version = status.name if status.exists() else "installed"
        return Corpus(source=source, version=version, root=root) if there else None
    try:
        found = distribution(source.package)
    except PackageNotFoundError:
        return None
    root = Path(str(found.locate_file("")))
    there = (root / source.root).is_dir()
    return Corpus(source=source, version=found.version, root=root) if there else None


def _unpacked(source: Source, packages: Path) -> Corpus | None:
    for folder in sorted(packages.glob(f"{source.package}==*"), reverse=True):
        if (folder / source.root).is_dir():
            return Corpus(source=source, version=folder.name.partition("==")[2], root=folder)
    return None
