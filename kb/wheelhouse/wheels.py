"""Wheels as files: what one says of itself, what a set of them lacks, and this program's own."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import Parser
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from kb.errors import ToolchainError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OWN = "kernel-kb"
_NOT_PACKED = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """What a wheel says of itself."""

    path: Path
    name: str  # canonical
    version: str
    requires: tuple[str, ...]
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTarget:
    """The Python and the machine that wheels are for.

    Attributes:
        python: major and minor version, ``3.12``.
        platform: the newest tag that it takes, ``manylinux_2_28_x86_64``.
    """

    python: str
    platform: str

    @property
    def machine(self) -> str:
        """The processor's architecture."""
        return next(name for name in MACHINES if self.platform.endswith(name))

    @property
    def tags(self) -> tuple[str, ...]:
        """Every platform tag that it takes, the newest first."""
        newest = int(self.platform.split("_")[2])
        oldest = 5 if self.machine == "x86_64" else 17
        names = [f"manylinux_2_{minor}" for minor in range(newest, oldest - 1, -1)]
        aliases = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
        names += [alias for minor, alias in aliases.items() if oldest <= minor <= newest]
        return tuple(f"{name}_{self.machine}" for name in (*names, "linux"))

    def environment(self) -> dict[str, str]:
        """Return what markers of requirements ask for there."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


MACHINES = ("x86_64", "aarch64")


def read_wheel(path: Path) -> Wheel:
    """Read the metadata of a wheel.

    Raises:
        ToolchainError: it is no wheel, or not a whole one.
    """
    from packaging.utils import canonicalize_name

    try:
        with zipfile.ZipFile(path) as archive:
            name = next(
                name
                for name in archive.namelist()
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1
            )
            told = Parser().parsestr(archive.read(name).decode())
    except (OSError, zipfile.BadZipFile, StopIteration, UnicodeDecodeError) as error:
        raise ToolchainError(
            f"{path} is not a whole wheel ({error}): remove it and run this again"
        ) from error
    return Wheel(
        path=path,
        name=canonicalize_name(told["Name"]),
        version=told["Version"],
        requires=tuple(told.get_all("Requires-Dist") or ()),
        extras=tuple(told.get_all("Provides-Extra") or ()),
    )


def lacking(
    wheels: Iterable[Wheel],
    roots: Iterable[Requirement],
    place: WheelTarget,
    provided: Iterable[str],
) -> list[Requirement]:
    """Return the requirements that no wheel of the set meets, followed from `roots`.

    pip takes the markers of requirements for the Python that runs it, not for the one that the
    wheels are meant for, so a set that it calls complete may lack a part.

    Args:
        provided: canonical names that the machine has already.
    """
    from packaging.utils import canonicalize_name

    there = {wheel.name: wheel for wheel in wheels}
    given = set(provided)
    found: dict[str, Requirement] = {}
    queue = list(roots)
    seen: set[tuple[str, frozenset[str]]] = set()
    while queue:
        wanted = queue.pop()
        name = canonicalize_name(wanted.name)
        place_in_walk = (name, frozenset(wanted.extras))
        if name in given:
            continue
        wheel = there.get(name)
        if wheel is None or not wanted.specifier.contains(wheel.version, prereleases=True):
            found[name] = wanted
            continue
        if place_in_walk in seen:
            continue
        seen.add(place_in_walk)
        queue += needs(wheel, wanted.extras, place)
    return [found[name] for name in sorted(found)]


def needs(wheel: Wheel, extras: Iterable[str], place: WheelTarget) -> list[Requirement]:
    """Return what `wheel` with `extras` requires on `place`, the markers done with."""
    from packaging.requirements import Requirement

    environment = place.environment()
    found = []
    for text in wheel.requires:
        part = Requirement(text)
        marker, part.marker = part.marker, None
        asked = (*extras, "")
        if marker is None or any(marker.evaluate({**environment, "extra": e}) for e in asked):
            found.append(part)
    return found


def stub_wheel(folder: Path, name: str, version: str) -> Path:
    """Write an empty wheel that stands for a package which the machine brings itself."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    head = f"{name}-{version}.dist-info"
    texts = {
        f"{head}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{head}/WHEEL": "Wheel-Version: 1.0\nGenerator: kb\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    _pack(path, {inner: text.encode() for inner, text in texts.items()}, head)
    return path


def own_wheel(folder: Path) -> Path:
    """Write the wheel of the running `kb`: built from its checkout, or packed as it is installed.

    Raises:
        ToolchainError: it is not installed, or its checkout cannot be built.
    """
    try:
        distribution = metadata.distribution(OWN)
    except metadata.PackageNotFoundError as error:
        raise ToolchainError(
            f"expected {OWN} to be installed, found only its files: run make install"
        ) from error
    checkout = _checkout(distribution)
    return pack_installed(distribution, folder) if checkout is None else _build(checkout, folder)


def _checkout(distribution: metadata.Distribution) -> Path | None:
    told = distribution.read_text("direct_url.json")
    if told is None:
        return None
    origin = json.loads(told)
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlparse(origin["url"]).path))


def _build(checkout: Path, folder: Path) -> Path:
    ready = find_spec("hatchling") is not None
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(folder),
        str(checkout),
    ]
    done = subprocess.run(
        [*command, *(["--no-build-isolation"] if ready else [])],
        capture_output=True,
        text=True,
        check=False,
    )
    built = sorted(folder.glob("kernel_kb-*.whl"))
    if done.returncode or not built:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ToolchainError(f"the wheel of {checkout} cannot be built ({last}): run make install")
    return built[-1]


def pack_installed(distribution: metadata.Distribution, folder: Path) -> Path:
    """Write an installed distribution as the wheel that it was installed from.

    Raises:
        ToolchainError: it was not installed from a wheel, or files of it are gone.
    """
    files = distribution.files or ()
    heads = {file.parts[0] for file in files if file.parts[0].endswith(".dist-info")}
    told = Parser().parsestr(distribution.read_text("WHEEL") or "")
    tags = [tag.split("-") for tag in told.get_all("Tag") or ()]
    if len(heads) != 1 or not tags:
        raise ToolchainError(
            f"{distribution.metadata['Name']} was not installed from a wheel: install it with pip"
        )
    (head,) = heads
    contents: dict[str, bytes] = {}
    for file in files:
        outside = file.parts[0] in ("..", "/") or "__pycache__" in file.parts
        if not outside and not (file.parts[0] == head and file.name in _NOT_PACKED):
            try:
                contents[file.as_posix()] = Path(str(distribution.locate_file(file))).read_bytes()
            except OSError as error:
                raise ToolchainError(
                    f"{file} of {head} is gone ({error.strerror}): install it again"
                ) from error
    parts = (".".join(dict.fromkeys(tag[place] for tag in tags)) for place in range(3))
    path = folder / f"{head.removesuffix('.dist-info')}-{'-'.join(parts)}.whl"
    _pack(path, contents, head)
    return path


def _pack(path: Path, contents: Mapping[str, bytes], head: str) -> None:
    record = "".join(
        f"{name},sha256={_record_hash(data)},{len(data)}\n" for name, data in contents.items()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        archive.writestr(f"{head}/RECORD", f"{record}{head}/RECORD,,\n")


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
