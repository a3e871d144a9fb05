"""Which files of a machine are flagged as speaking to a language model: false alarms are to be few.

    python benchmarks/ingest/flags.py FOLDER [FOLDER ...]

Looks at every text and source file below the folders as a whole, which is stricter than the
passages that `kb ingest` looks at.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ingest.isolation.injection_scan import suspicions

SUFFIXES = (".md", ".rst", ".txt", ".html", ".h", ".cuh", ".py", ".c")
MOST = 400_000  # characters of one file


def main(folders: list[str]) -> None:
    files = characters = flagged = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in sorted(names):
                path = Path(place, name)
                if not name.endswith(SUFFIXES) or not path.is_file():
                    continue
                with path.open(errors="replace") as file:
                    text = file.read(MOST)
                files += 1
                characters += len(text)
                found = suspicions(text)
                if found:
                    flagged += 1
                    print(f"{path}: {', '.join(found)}")
    print(f"{flagged} of {files} files flagged, {characters / 1e6:.0f} million characters")


if __name__ == "__main__":
    main(sys.argv[1:] or [str(Path(__file__).parent.parent)])
