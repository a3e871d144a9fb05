"""Whether a file may have changed, told by its size and times as git tells it."""

from __future__ import annotations

import time
from pathlib import Path

from ingest import VERSION

# A file written again within the clock tick of its first reading has the same times: what is
# younger than this when it is read is not trusted, and read once more by the next run.
SETTLED = 2_000_000_000  # nanoseconds; FAT keeps times to two seconds


def stamp(path: Path) -> str:
    """Return the version of the readers with the size and times of a file.

    It changes whenever the contents do, unless someone sets the times back on purpose. Empty where
    the file is too young for that, or gone.
    """
    now = time.time_ns()
    try:
        about = path.stat()
    except OSError:
        return ""
    if now - max(about.st_mtime_ns, about.st_ctime_ns) < SETTLED:
        return ""
    return f"{VERSION} {about.st_size}.{about.st_mtime_ns}.{about.st_ctime_ns}.{about.st_ino}"
