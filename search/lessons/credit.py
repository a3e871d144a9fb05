"""What each passage gained in a run: from its graph to the measurements that rest on each subject."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from sqlalchemy import Engine

from kb.retrieval.effect_estimate import WITHIN, GainMeasurement
from kb.retrieval.effect_store import Use, record, subject
from kb.store.documents import Store
from search.graph import Graph, Node, Slot, hash_source
from search.lessons.distill import symptoms_of
from search.lessons.setting import Setting
from search.outcome import Outcome
from search.won_or_lost import Gain, best, gains, is_degenerate

OTHERS = (
    0.25  # of the credit, for each implementation of an idea but the best: the search keeps that
)
QUOTED = 0.25  # of the credit, for all passages together that a prompt quoted and no idea named


def keep_credits(
    engine: Engine, graph: Graph, confirmed: Mapping[int, Outcome], setting: Setting, now: float
) -> int:
    """Record what the passages of a run gained; return how many measurements count.

    It may be called again over the same run, finished or not: what is known of it is replaced.

    Args:
        now: seconds since the epoch.

    Raises:
        StoreError: the database cannot be written.
    """
    store = Store(engine)
    names = {name for node in graph.nodes for name in (*node.idea.passages, *node.draft.passages)}
    known = {one.id: subject(one) for one in store.passages(sorted(names)).values()}
    ideas = sorted({node.idea.record for node in graph.nodes if node.idea.record})
    found = ((name, store.document("idea", name)) for name in ideas)
    subjects = known | {name: document.path for name, document in found if document is not None}
    return record(engine, setting.run, list(credits_of(graph, confirmed, setting, now, subjects)))


def credits_of(
    graph: Graph,
    confirmed: Mapping[int, Outcome],
    setting: Setting,
    now: float,
    subjects: Mapping[str, str],
) -> Iterator[Use]:
    """Yield, for each implementation that was judged, the subjects that it rests on.

    A draft that was mended is one implementation: what became of it in the end counts. Of several
    implementations of one idea the best counts whole, the others in part. What was compiled and
    not timed counts nothing, nor what was done for a task whose answer is always the same.

    Args:
        confirmed: outcomes of finalists that were measured again, by node; they count instead.
        now: seconds since the epoch.
        subjects: of passages that are still known, by their ids, and of ideas' records, by name.
    """
    if is_degenerate(graph.attempts()):
        return
    bottlenecks: dict[int | None, str] = {}
    ends = _ends(graph, confirmed)
    groups: dict[tuple[Slot, int], list[Gain]] = {}
    for node, gain in ends:
        groups.setdefault((node.step.slot, node.step.idea), []).append(gain)
    leading = {best(group).attempt.number for group in groups.values()}
    for node, gain in ends:
        start = None if gain.start is None else gain.start.number
        if start not in bottlenecks:
            bottlenecks[start] = next(iter(symptoms_of(gain.start, setting)), "")
        weight = _trust(gain) * (1.0 if node.number in leading else OTHERS)
        assert gain.fate is not None
        for name, share in _shares(node, subjects).items():
            trial = GainMeasurement(
                gain=0.0 if gain.ratio is None else gain.log,
                fate=gain.fate,
                at=now,
                share=share * weight,
                families=frozenset(setting.families),
                architecture=setting.architecture,
                bottleneck=bottlenecks[start],
            )
            evidence = _evidence(gain, setting)
            yield Use(subject=name, evidence=evidence, node=node.number, trial=trial)


def _ends(graph: Graph, confirmed: Mapping[int, Outcome]) -> list[tuple[Node, Gain]]:
    """Return the last judged node of each implementation with its gain, the oldest first."""
    last: dict[tuple[Slot, int, int], tuple[Node, Gain]] = {}
    for gain in gains(graph.attempts(), confirmed):
        if gain.cheated:
            continue  # neither its passages nor its idea are to blame, or to thank
        node = graph.nodes[gain.attempt.number]
        last[node.step.slot, node.step.idea, node.step.branch] = node, gain
    timed = (one for one in last.values() if one[1].fate is not None)
    return sorted(timed, key=lambda one: one[0].number)


def _trust(gain: Gain) -> float:
    """Return 1 where a gain was measured exactly, less the wider its interval.

    The measurement's noise counts beside that which measurements of one passage have anyway.
    """
    ratio = gain.ratio
    if ratio is None:
        return 1.0
    # The standard deviation of a log ratio, from its 95 % interval.
    noise = math.log(ratio.high / ratio.low) / (2 * 1.96) if ratio.low > 0 else 2 * WITHIN
    return 1 / (1 + (noise / WITHIN) ** 2)


def _evidence(gain: Gain, setting: Setting) -> str:
    """Name a measurement by its content: the same candidate in two runs is one measurement."""
    parts = (
        hash_source(gain.attempt.draft.source),
        hash_source(gain.start.draft.source) if gain.start is not None else "",
        setting.identity,
        setting.target,
    )
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _shares(node: Node, subjects: Mapping[str, str]) -> dict[str, float]:
    """Return the share of the credit of each subject that an implementation rests on."""
    named = _known((*node.idea.passages, node.idea.record or ""), subjects)
    only = [one for one in _known(node.draft.passages, subjects) if one not in named]
    return {**dict.fromkeys(named, 1.0), **dict.fromkeys(only, QUOTED / max(1, len(only)))}


def _known(names: Iterable[str], subjects: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(subjects[one] for one in names if one in subjects))
