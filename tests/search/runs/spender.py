"""A run in a process of its own, which asks a model that costs nothing until a cap ends it.

python spender.py URL RUN REQUESTS
"""

from __future__ import annotations

import sys
import time

from kb.database import open_url
from search.runs.spending import Ledger
from search.runs.storage import Storage
from search.settings import StopSettings
from synth.models import Message, Reply, Request
from synth.models.budgeted import BudgetedModel, Exhausted
from synth.models.recorded import Recorded


class Slow:
    """Takes a moment to answer, and then as many tokens as it may."""

    name = "m"

    def reply(self, request: Request) -> Reply:
        time.sleep(0.005)
        return Reply(
            text="yes", model="m", seconds=0.0, finish="stop", tokens_in=60, tokens_out=100
        )


def main(url: str, run: str, requests: int) -> None:
    storage = Storage(open_url(url, "--database"))
    ledger = Ledger(storage.engine, StopSettings()).open(run)
    model = Recorded(
        BudgetedModel(Slow(), ledger, lambda usage: usage.tokens_out * 0.001),
        storage,
        noted=ledger.noted("code"),
    )
    print("ready", flush=True)
    waits = sys.stdin.readline() == "one\n"  # request, then wait until all have begun
    for number in range(requests):
        text = Message(role="user", content=f"{run} {number} " + "x" * 170)
        try:
            model.reply(
                Request(messages=(text,), max_tokens=100, temperature=0.0, seed=number, model="m")
            )
        except Exhausted as spent:
            print(spent)
            return
        if waits and number == 0:
            print("begun", flush=True)
            sys.stdin.readline()
    print("all asked")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
