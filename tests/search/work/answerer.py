"""A worker for prompts in a process of its own, whose model takes a moment and says who it was.

python answerer.py URL SECONDS LEASE [--once]
"""

from __future__ import annotations

import os
import signal
import sys
import time

from kb.database import open_url
from search.work.prompts import PromptQueue, PromptWorker
from synth.models import Reply, Request


class Slow:
    name = "m"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def reply(self, request: Request) -> Reply:
        print(request.messages[0].content, flush=True)
        time.sleep(self._seconds)
        text = f"{os.getpid()}: {request.messages[0].content}"
        return Reply(text=text, model="m", tokens_in=1, tokens_out=1, seconds=0.0, finish="stop")


def main(url: str, seconds: float, lease: float, *, once: bool) -> None:
    queue = PromptQueue(open_url(url, "--database"), lease=lease)
    say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731 - as short as it is
    worker = PromptWorker(queue, Slow(seconds), say=say)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run(once=once)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), once="--once" in sys.argv)
