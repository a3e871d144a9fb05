"""What each passage gained in a run: from its graph to the measurements that rest on each subject."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from sqlalchemy import Engine

from kb.retrieval.effect_estimate import WITHIN, Fate, Trial
from kb.retrieval.effect_store import Use, record, subject
from kb.store.documents import Store
from search.attempt import Attempt, Idea
from search.graph import Graph, Node, Slot
from search.outcome import Outcome, Passed, Ratio

OTHERS = (
    0.25  # of the credit, for each implementation of an idea but the best: the search keeps that
)
QUOTED = 0.25  # of the credit, for all passages together that a prompt quoted and no idea named
_EAGER = Ratio(ratio=1.0, low=1.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a run's measurements were taken.

    Attributes:
        identity: of the task, see `Task.identity`.
        bottleneck: the worst symptom of a parent (None: of the reference), "" where none is known.
        at: seconds since the epoch.
    """

    run: str
    identity: str
    target: str
    architecture: str
    families: frozenset[str]
    bottleneck: Callable[[Attempt | None], str]
    at: float


def keep_credits(
    engine: Engine, graph: Graph, confirmed: Mapping[int, Outcome], origin: Origin
) -> int:
    """Record what the passages of a run gained; return how many measurements count.

    It may be called again over the same run, finished or not: what is known of it is replaced.

    Raises:
        StoreError: the database cannot be written.
    """
    store = Store(engine)
    names = {name for node in graph.nodes for name in (*node.idea.passages, *node.draft.passages)}
    known = {one.id: subject(one) for one in store.passages(sorted(names)).values()}
    ideas = sorted({node.idea.record for node in graph.nodes if node.idea.record})
    found = ((name, store.document("idea", name)) for name in ideas)
    records = {name: document.path for name, document in found if document is not None}
    uses = credits_of(graph, confirmed, origin, known, records)
    return record(engine, origin.run, list(uses))


def credits_of(
    graph: Graph,
    confirmed: Mapping[int, Outcome],
    origin: Origin,
    passages: Mapping[str, str],
    records: Mapping[str, str],
) -> Iterator[Use]:
    """Yield, for each implementation that was judged, the subjects that it rests on.

    A draft that was mended is one implementation: what became of it in the end counts. Of several
    implementations of one idea the best counts whole, the others in part. What was compiled and
    not timed counts nothing.

    Args:
        confirmed: outcomes of finalists that were measured again, by node; they count instead.
        passages: subject of each passage that is still known.
        records: document of each idea's record.
    """
    diagnosed: dict[int | None, str] = {}
    best: dict[tuple[Slot, int], tuple[float, int]] = {}
    ends: list[_End] = []
    for node in _last_of_each(graph):
        outcome = confirmed.get(node.number, node.outcome) if node.outcome else None
        if outcome is None or outcome.kind == "checked":
            continue
        base = _base(graph, node)
        before = confirmed.get(base.number, base.outcome) if base is not None else None
        end = _End(node=node, base=base, measured=_measured(outcome, before))
        ends.append(end)
        rank = (end.measured.rank, -node.number)
        best[end.idea] = max(best.get(end.idea, rank), rank)
    for end in ends:
        node, base, measured = end.node, end.base, end.measured
        number = None if base is None else base.number
        if number not in diagnosed:
            diagnosed[number] = origin.bottleneck(base.attempt() if base else None)
        weight = measured.trust * (1.0 if best[end.idea][1] == -node.number else OTHERS)
        evidence = _evidence(node, base, origin)
        for name, share in _shares(node, passages, records).items():
            trial = Trial(
                gain=measured.gain,
                fate=measured.fate,
                at=origin.at,
                share=share * weight,
                families=origin.families,
                architecture=origin.architecture,
                bottleneck=diagnosed[number],
            )
            yield Use(subject=name, evidence=evidence, node=node.number, trial=trial)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A gain with what is to be thought of it.

    Attributes:
        gain: log of the speed over what it started from.
        trust: 1 where it was measured exactly, less the wider its interval.
    """

    gain: float
    fate: Fate
    trust: float = 1.0

    @property
    def rank(self) -> float:
        return -math.inf if self.fate == "failed" else self.gain


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """What became of an implementation in the end."""

    node: Node
    base: Node | None
    measured: _Measured

    @property
    def idea(self) -> tuple[Slot, int]:
        return self.node.step.slot, self.node.step.idea


def _last_of_each(graph: Graph) -> list[Node]:
    """Return the last judged node of each implementation."""
    last: dict[tuple[Slot, int, int], Node] = {}
    for node in graph.nodes:
        if node.outcome is not None:
            last[node.step.slot, node.step.idea, node.step.branch] = node
    return sorted(last.values(), key=lambda node: node.number)


def _base(graph: Graph, node: Node) -> Node | None:
    """Return the nearest ancestor that passed: what a mended draft mends did not."""
    number = node.parent
    while number is not None:
        parent = graph.nodes[number]
        if isinstance(parent.outcome, Passed):
            return parent
        number = parent.parent
    return None


def _measured(outcome: Outcome, before: Outcome | None) -> _Measured:
    """Compare an outcome with that of what it started from.

    Both are measured beside the same baseline, so that a clock that drifts between two candidates
    does not count. A gain whose interval is wide tells little: it counts as the measurement noise
    that it has beside that which measurements of one passage have anyway.
    """
    if not isinstance(outcome, Passed):
        return _Measured(gain=0.0, fate="failed")
    mine = outcome.speedup["eager"]
    theirs = before.speedup["eager"] if isinstance(before, Passed) else _EAGER
    fate: Fate = "even"
    if mine.low > theirs.high:
        fate = "won"
    elif mine.high < theirs.low:
        fate = "lost"
    noise = (_noise(mine) ** 2 + _noise(theirs) ** 2) / WITHIN**2
    gain = math.log(mine.ratio / theirs.ratio)
    return _Measured(gain=gain, fate=fate, trust=1 / (1 + noise))


def _noise(ratio: Ratio) -> float:
    """Return the standard deviation of a log ratio, from its 95 % interval."""
    return math.log(ratio.high / ratio.low) / (2 * 1.96) if ratio.low > 0 else WITHIN


def _evidence(node: Node, base: Node | None, origin: Origin) -> str:
    """Name a measurement by its content: the same candidate in two runs is one measurement."""
    parts = (
        node.source_hash,
        base.source_hash if base is not None else "",
        origin.identity,
        origin.target,
    )
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _shares(
    node: Node, passages: Mapping[str, str], records: Mapping[str, str]
) -> dict[str, float]:
    """Return the share of the credit of each subject that an implementation rests on."""
    named = _named(node.idea, passages, records)
    quoted = [passages[one] for one in node.draft.passages if one in passages]
    only = [one for one in dict.fromkeys(quoted) if one not in named]
    return {**dict.fromkeys(named, 1.0), **dict.fromkeys(only, QUOTED / max(1, len(only)))}


def _named(idea: Idea, passages: Mapping[str, str], records: Mapping[str, str]) -> Iterable[str]:
    found = [passages[one] for one in idea.passages if one in passages]
    if idea.record is not None and idea.record in records:
        found.append(records[idea.record])
    return dict.fromkeys(found)
