"""What a git checkout leaves out: asked of git, or read from its files where git is not there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

GIT_SECONDS = 60
# A checkout of a stranger may name programs in its configuration: none of them is to run.
_HARMLESS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")

Ignored = Callable[[Path], bool]


def ignored_below(root: Path) -> Ignored:
    """Return what says of a path below `root` whether its git checkout ignores it.

    A tracked file is never ignored. Outside a checkout, and where the folder asked for is ignored
    as a whole (somebody names ``build/docs`` because that is what is to be read), nothing is.

    Args:
        root: absolute, links resolved.
    """
    checkout = _checkout(root)
    if checkout is None:
        return _nothing
    asked = _ask_git(root)
    return _read_files(root, checkout) if asked is None else asked


def _nothing(path: Path) -> bool:  # noqa: ARG001 - the shape of the answer
    return False


def _checkout(root: Path) -> Path | None:
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return folder
    return None


def _ask_git(root: Path) -> Ignored | None:
    """Return git's own answer, None where git is missing or refuses the checkout."""
    names = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    try:
        whole = _git(root, "check-ignore", "-q", ".")
        if whole.returncode not in {0, 1}:
            return None
        if whole.returncode == 0:
            return _nothing
        listed = _git(root, *names)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if listed.returncode:
        return None
    left_out = {root / os.fsdecode(name).rstrip("/") for name in listed.stdout.split(b"\0") if name}
    return left_out.__contains__


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", *_HARMLESS, "-C", str(root), *arguments]
    # Within a hook of git, its variables name another checkout.
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        command,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=GIT_SECONDS,
        env={**mine, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
    )


def _read_files(root: Path, checkout: Path) -> Ignored:
    """Read the .gitignore files themselves; what is tracked cannot be known this way."""
    specs: dict[Path, Callable[[str], bool | None]] = {}

    def decided(path: Path, name: str) -> bool:
        """Ask the files from the innermost folder up: the first that has an opinion decides."""
        for folder in _between(path.parent, checkout):
            if folder not in specs:
                specs[folder] = _spec(_lines(folder, checkout))
            answer = specs[folder](f"{path.relative_to(folder).as_posix()}{name}")
            if answer is not None:
                return answer
        return False

    def ignored(path: Path) -> bool:
        return decided(path, "/" if path.is_dir() else "")

    above = [folder for folder in (root, *root.parents) if folder.is_relative_to(checkout)]
    if any(folder != checkout and ignored(folder) for folder in above):
        return _nothing
    return ignored


def _between(folder: Path, checkout: Path) -> list[Path]:
    return [one for one in (folder, *folder.parents) if one.is_relative_to(checkout)]


def _lines(folder: Path, checkout: Path) -> list[str]:
    files = [folder / ".gitignore"]
    if folder == checkout:
        files.insert(0, folder / ".git" / "info" / "exclude")
    lines: list[str] = []
    for file in files:
        if file.is_file() and not file.is_symlink():
            lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines


def _spec(lines: Sequence[str]) -> Callable[[str], bool | None]:
    if not lines:
        return lambda _: None
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(lines)
    return lambda name: spec.check_file(name).include
