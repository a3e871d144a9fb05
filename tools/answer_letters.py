"""Answer the letters of a mailbox from files, by their numbers: to play a kept exchange once more.

    python tools/answer_letters.py examples/mailbox/letters examples/mailbox/answers

Letter 007-source-… is answered with 007.md. It ends when no letter waits that it could answer and the
folder did not change for a minute, or on Ctrl-C.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path


def answer(letters: Path, answers: Path) -> int:
    """Answer what waits now; return how many letters were answered."""
    done = 0
    for about in sorted(letters.glob("*/[0-9]*-*.json")):
        letter = json.loads(about.read_text(encoding="utf-8"))
        kept = answers / f"{letter['name'].split('-')[0]}.md"
        reply = about.parent / letter["reply"]
        if letter["state"] != "waiting" or reply.exists() or not kept.exists():
            continue
        draft = reply.with_suffix(".draft")
        shutil.copyfile(kept, draft)
        draft.rename(reply)
        print(f"{letter['name']}: {kept}")
        done += 1
    return done


def main() -> None:
    """Answer until nothing happens any more."""
    letters, answers = map(Path, sys.argv[1:3])
    last = time.monotonic()
    while time.monotonic() - last < 60:
        if answer(letters, answers):
            last = time.monotonic()
        time.sleep(0.5)


if __name__ == "__main__":
    main()
