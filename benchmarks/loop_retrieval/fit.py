"""Fit how likely documents are of use, from the cases that are not held out.

    python -m benchmarks.loop_retrieval.fit

Each case is asked about as a new task: without the grades of its own task, and without the patterns that at most
four tasks show. Run it after `benchmarks.loop_retrieval.examples`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.loop_retrieval.__main__ import TOKENS, is_graded, own_patterns
from benchmarks.loop_retrieval.cases import Loaded, load_cases
from kb.config import Home, shipped_docs
from kb.knowledge import Knowledge, open_knowledge
from kb.retrieval.multi_query.merge import record_name
from kb.retrieval.multi_query.odds import FILE, GRADES, Signs

LEFT_OUT = 4  # tasks that show a pattern which is left out: as `--leave-out`
RIDGE = 40.0  # on weights of features of unit variance
STEPS = 30
DIGITS = 4


def main() -> None:
    """Write the file."""
    # Without the weights of before: what is asked for here are the signs.
    cases = [one for one in load_cases() if one.part != "held-out"]
    left_out = own_patterns(cases, LEFT_OUT)
    knowledge = open_knowledge(Home.find())
    rows: dict[str, list[tuple[tuple[float, ...], int]]] = defaultdict(list)
    for one in cases:
        for stage, signs, grade in signs_of(one, left_out[one.task], knowledge):
            if signs.judged:
                rows[f"{stage} judged"].append((signs.features(), grade))
            blind = replace(signs, gain=0.0, useful=0.0, judged=False)
            rows[f"{stage} alone"].append((blind.features(), grade))
    fitted = {}
    for name, members in sorted(rows.items()):
        signs_, grades = np.array([row for row, _ in members]), np.array([g for _, g in members])
        weights = [logistic(signs_, (grades >= least).astype(float)) for least in GRADES]
        fitted[name] = np.round(weights, DIGITS).tolist()
        print(f"{name}: {len(members)} documents")
    path = shipped_docs() / FILE
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in fitted.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def signs_of(
    one: Loaded, left_out: frozenset[str], knowledge: Knowledge
) -> Iterator[tuple[str, Signs, int]]:
    """Yield for each document that a case leads to the stage, what is known of it, and its grade."""
    inquiry = one.questions(left_out, one.others()).inquiry(one.step(TOKENS))
    for found, signs in knowledge.retriever.signs(inquiry):
        name = record_name(found.kind, found.document)
        if is_graded(name, one.generation):
            yield inquiry.stage, signs, one.case.grades.get(name, 0)


def logistic(signs: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the weights of a ridge logistic regression, by Newton's method with halved steps.

    Args:
        signs: one row a document, its last column is 1.
        wanted: 1 for documents that are good enough, 0 for others.
    """
    scale = np.maximum(signs.std(axis=0), 1e-9)
    scale[-1] = 1.0
    rows = signs / scale
    ridge = np.full(rows.shape[1], RIDGE)
    ridge[-1] = 1e-6

    def loss(weights: np.ndarray) -> float:
        odds = rows @ weights
        return float(np.sum(np.logaddexp(0, odds) - wanted * odds) + ridge @ weights**2 / 2)

    weights = np.zeros(rows.shape[1])
    weights[-1] = np.log(wanted.mean() / (1 - wanted.mean()))
    now = loss(weights)
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(rows @ weights)))
        slope = rows.T @ (chance - wanted) + ridge * weights
        bend = (rows.T * (chance * (1 - chance))) @ rows + np.diag(ridge)
        step = np.linalg.solve(bend, slope)
        while (after := loss(weights - step)) > now and np.abs(step).max() > 1e-9:
            step = step / 2
        weights = weights - step
        if now - after < 1e-6 * now:
            break
        now = after
    found: np.ndarray = weights / scale
    return found


if __name__ == "__main__":
    main()
