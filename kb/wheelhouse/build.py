"""Fills a folder with the wheels that another machine needs, with hashes and a script that installs them."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError, StoreError, ToolchainError
from kb.wheelhouse.wheels import (
    MACHINES,
    OWN,
    Wheel,
    WheelTarget,
    lacking,
    needs,
    own_wheel,
    read_wheel,
    stub_wheel,
)

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Say = Callable[[str], None]
MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
_PORTION = 8  # wheels that one call of pip fetches: what is whole stays if the next call fails
_ROUNDS = 5
# What comes with torch: its builds pin the versions, so a second copy would only be in the way.
_WITH_TORCH = ("torch", "triton")
_JUDGE_NEEDS = ("numpy",)
# A new environment of Python 3.11 holds an old one, which hides the one that torch was installed with.
_BESIDE_TORCH = "setuptools>=77.0.3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is wanted of a wheelhouse.

    Attributes:
        judge_only: only what `kb judge` needs.
        extras: optional parts of kb, as its metadata names them.
        torch: include torch and what it needs.
        constraints: a file of pins, None for the newest of everything.
    """

    place: WheelTarget
    judge_only: bool = False
    extras: tuple[str, ...] = ()
    torch: bool = False
    constraints: Path | None = None


def choose_place(python: str | None, tag: str | None) -> WheelTarget:
    """Return the Python and platform that wheels are for; those of this machine by default.

    Raises:
        ConfigError: they are none that kb runs on.
    """
    python = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    if not re.fullmatch(r"3\.\d+", python) or int(python[2:]) < 11:
        raise ConfigError(
            f"--python takes a version of at least 3.11, found {python!r}: e.g. --python 3.12"
        )
    tag = tag or f"manylinux_2_28_{platform.machine()}"
    if not re.fullmatch(rf"manylinux_2_\d+_({'|'.join(MACHINES)})", tag):
        raise ConfigError(
            f"--platform takes manylinux_2_<minor>_<{' or '.join(MACHINES)}>, found {tag!r}: "
            "e.g. manylinux_2_28_x86_64 (ldd --version on the other machine says its minor version)"
        )
    return WheelTarget(python=python, platform=tag)


def check_extras(own: Wheel, names: Sequence[str]) -> None:
    """See that kb has the optional parts called `names`.

    Raises:
        ConfigError: it has no such part.
    """
    known = sorted({*own.extras} - {"dev"})
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown part {name!r} for --with: known are {', '.join(known)}")


def build(folder: Path, wanted: Contents, say: Say) -> dict[str, Any]:
    """Fill `folder` and return its manifest; what is there already and whole is not fetched again.

    Raises:
        KbError: pip finds no wheel of something, or the folder cannot be written.
    """
    wheels = folder / "wheels"
    try:
        wheels.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot write to {folder} ({error.strerror}): name another folder"
        ) from error
    with tempfile.TemporaryDirectory() as scratch:
        own = own_wheel(Path(scratch))
        mine = read_wheel(own)
        check_extras(mine, wanted.extras)
        roots = _roots(mine, wanted)
        names = _resolve_and_fetch(wheels, own, roots, wanted, say)
    for path in sorted(wheels.iterdir()):
        if path.name not in names:
            say(f"removed, no longer needed: {path.name}")
            path.unlink()
    manifest = _describe(folder, wanted, own.name)
    _write_guides(folder, manifest)
    return manifest


def check(folder: Path) -> dict[str, Any]:
    """Compare a wheelhouse with its manifest, and return that.

    Raises:
        StoreError: a file is missing or differs.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder} has no readable {MANIFEST} ({error}): build it anew") from error
    for file in manifest["files"]:
        path = folder / "wheels" / file["name"]
        if not path.exists():
            raise StoreError(f"{path} is missing: copy or build the wheelhouse again")
        if _sha256(path) != file["sha256"]:
            raise StoreError(f"{path} differs from its hash in {MANIFEST}: copy it again")
    return manifest


def _roots(own: Wheel, wanted: Contents) -> list[Requirement]:
    """Return what must be there besides kb itself."""
    from packaging.requirements import Requirement

    chosen = needs(own, wanted.extras, wanted.place)
    if not wanted.judge_only:
        if wanted.torch:
            return chosen
        return [*(need for need in chosen if need.name != "torch"), Requirement(_BESIDE_TORCH)]
    plain = {need.name for need in needs(own, (), wanted.place)}
    return [
        need
        for need in chosen
        if need.name in _JUDGE_NEEDS
        or need.name not in plain  # of an extra that was asked for
        or (need.name == "torch" and wanted.torch)
    ]


def _resolve_and_fetch(
    wheels: Path, own: Path, roots: list[Requirement], wanted: Contents, say: Say
) -> set[str]:
    """Fetch until nothing lacks; return the names of the files that belong there."""
    asked = list(roots)
    for _ in range(_ROUNDS):
        say(f"… asking pip what Python {wanted.place.python} on {wanted.place.platform} needs")
        files = _resolve(own, asked, wanted)
        _fetch(wheels, files, wanted, say)
        shutil.copyfile(own, wheels / own.name)
        names = {own.name, *(file["name"] for file in files)}
        there = [read_wheel(wheels / name) for name in sorted(names)]
        found = lacking(there, roots, wanted.place, _provided(wanted))
        if not found:
            return names
        say(f"also needed there: {', '.join(map(str, found))}")
        asked += found
    raise ToolchainError(
        f"these requirements cannot be met together: {', '.join(map(str, found))}: loosen the pins with --constraints"
    )


def _provided(wanted: Contents) -> tuple[str, ...]:
    if wanted.torch:
        return ()
    return tuple(name for name in _WITH_TORCH if name not in wanted.extras)


def _resolve(own: Path, roots: Iterable[Requirement], wanted: Contents) -> list[dict[str, Any]]:
    """Have pip choose versions; return name, requirement and hash of each wheel."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pins = _pins(wanted)
        options = []
        if not wanted.torch:
            # Empty wheels stand for what the machine brings: pip must not fetch gigabytes.
            version = _lowest_torch(own)
            stub_wheel(folder, "torch", version)
            pins.append(f"torch=={version}")
            options += ["--find-links", scratch]
        (folder / "pins.txt").write_text("\n".join(pins) + "\n", encoding="utf-8")
        report = folder / "report.json"
        options += ["--dry-run", "--ignore-installed", "--target", str(folder / "none")]
        options += ["-q", "-c", str(folder / "pins.txt"), "--report", str(report)]
        _pip("install", *options, *_tags(wanted.place), *map(str, roots))
        chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    files = []
    for item in chosen:
        name = unquoted(item["download_info"]["url"])
        if wanted.torch or item["metadata"]["name"] != "torch":
            hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
            told = item["metadata"]
            pin = f"{told['name']}=={told['version']}"
            files.append({"name": name, "pin": pin, "sha256": hashes.get("sha256")})
    return files


def unquoted(url: str) -> str:
    """Return the file name at the end of a URL."""
    from urllib.parse import unquote, urlparse

    return Path(unquote(urlparse(url).path)).name


def _lowest_torch(own: Path) -> str:
    from packaging.requirements import Requirement

    for text in read_wheel(own).requires:
        need = Requirement(text)
        if need.name == "torch":
            return (
                min(part.version for part in need.specifier if part.operator == ">=") + "+provided"
            )
    raise ToolchainError(f"{own.name} states no version of torch: run make install")


def _pins(wanted: Contents) -> list[str]:
    """Return the lines of the pins that hold on the other machine."""
    if wanted.constraints is None:
        return []
    try:
        text = wanted.constraints.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{wanted.constraints} cannot be read ({error.strerror}): check the path"
        ) from error
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    # These pins are of the build for processors.
    mine = re.compile(rf"({'|'.join(_WITH_TORCH)}|numpy)\b")
    return [line for line in lines if line and not mine.match(line)]


def _fetch(wheels: Path, files: Sequence[dict[str, Any]], wanted: Contents, say: Say) -> None:
    absent = [file for file in files if not _whole(wheels / file["name"], file["sha256"])]
    if len(absent) < len(files):
        say(f"{len(files) - len(absent)} of {len(files)} wheels are there already")
    for start in range(0, len(absent), _PORTION):
        portion = absent[start : start + _PORTION]
        names = ", ".join(file["pin"] for file in portion)
        say(f"… {start + len(portion)} of {len(absent)}: {names}")
        for file in portion:
            (wheels / file["name"]).unlink(missing_ok=True)
        pins = [file["pin"] for file in portion]
        _pip("download", "-q", "--no-deps", "-d", str(wheels), *_tags(wanted.place), *pins)
        for file in portion:
            if not _whole(wheels / file["name"], file["sha256"]):
                raise ToolchainError(
                    f"{file['name']} did not arrive with the hash that the index states: run this again"
                )


def _whole(path: Path, sha256: str | None) -> bool:
    if not path.exists():
        return False
    if sha256 is not None:
        return _sha256(path) == sha256
    try:
        read_wheel(path)
    except ToolchainError:
        return False
    return True


def _tags(place: WheelTarget) -> list[str]:
    options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", place.python]
    for tag in place.tags:
        options += ["--platform", tag]
    return options


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    told = (errors or lines or ["no message"])[-1]
    raise ToolchainError(
        f"pip cannot get the wheels: {told}: mend that, then run this again; it goes on"
    )


def _describe(folder: Path, wanted: Contents, own: str) -> dict[str, Any]:
    files: list[dict[str, Any]] = [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted((folder / "wheels").iterdir())
    ]
    manifest = {
        "kb": read_wheel(folder / "wheels" / own).version,
        "python": wanted.place.python,
        "platform": wanted.place.platform,
        "judge_only": wanted.judge_only,
        "extras": list(wanted.extras),
        "torch": wanted.torch,
        "bytes": sum(file["bytes"] for file in files),
        "files": files,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def _write_guides(folder: Path, manifest: dict[str, Any]) -> None:
    here = Path(__file__).parent / "guides"
    script = folder / "install.sh"
    needed = [read_wheel(folder / "wheels" / file["name"]) for file in manifest["files"]]
    others = " ".join(f"{wheel.name}=={wheel.version}" for wheel in needed if wheel.name != OWN)
    own = f"{OWN}=={manifest['kb']}"
    install = (
        f"--no-deps {own}" if manifest["judge_only"] else _with_extras(own, manifest["extras"])
    )
    values = {
        "@PYTHON@": manifest["python"],
        "@FIRST@": others if manifest["judge_only"] else "",
        "@KB@": install,
        "@TRY@": "kb judge --help" if manifest["judge_only"] else "kb doctor",
        "@MEGABYTES@": f"{manifest['bytes'] / 1e6:.0f}",
        "@PLATFORM@": manifest["platform"],
        "@TORCH@": "" if manifest["torch"] else "needed",
    }
    for name, path in (("install.sh", script), ("README.md", folder / "README.md")):
        text = (here / name).read_text(encoding="utf-8")
        for mark, value in values.items():
            text = text.replace(mark, value)
        path.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    lines = [f"{file['sha256']}  wheels/{file['name']}" for file in manifest["files"]]
    lines += [f"{_sha256(folder / name)}  {name}" for name in (MANIFEST, "install.sh", "README.md")]
    (folder / SUMS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _with_extras(own: str, extras: Sequence[str]) -> str:
    name, _, version = own.partition("==")
    return f"{name}[{','.join(extras)}]=={version}" if extras else own


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
