"""Which earlier measurements fall with a run: those of programs that a judge has refused since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from search.outcome import Outcome
from search.runs.storage import Record, Storage
from search.runs.verdicts import twins

# What decides whether a program is right and allowed, besides the reference: see `Task.identity`.
_RULES = ("precision", "library", "special_values", "packing", "workloads", "slower_workloads")


def refused_twins(
    storage: Storage, record: Record, confirmed: Mapping[int, Outcome]
) -> list[tuple[str, int]]:
    """Return run and number of every node, in any run of the same rules, whose source this run refused.

    An older judge may have passed it: what was learned from it then is withdrawn.

    Args:
        confirmed: outcomes of the finalists, measured again.
    """
    refused = [
        node.draft.source
        for node in record.graph.nodes
        if (outcome := confirmed.get(node.number, node.outcome)) is not None
        and outcome.kind == "refused"
    ]
    found = twins(storage.engine, refused)
    if not found:
        return []
    about = {row.run: _rules(row.about) for row in storage.runs()}
    return [one for one in found if about[one[0]] == about[record.run]]


def _rules(about: Mapping[str, Any]) -> tuple[str | None, str]:
    settings = about.get("settings", {})
    return about.get("source"), json.dumps([settings.get(name) for name in _RULES])
