"""What going through the index costs on plain questions, which need no index.

    python -m benchmarks.deep_search [--hops 2] [--split train|test|all]

Deep search is for diagnoses that name several things at once. Nobody should lose by it otherwise: this
asks the questions of `benchmarks/retrieval` over the shipped library flat and deep.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.retrieval.methods import measure
from benchmarks.retrieval.questions import answerable, load_questions
from benchmarks.retrieval.runner import all_passages, find_scopes
from kb.config import Home
from kb.knowledge import open_knowledge
from kb.types import Query

LIMIT = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hops", type=int, default=2)
    parser.add_argument("--split", choices=("train", "test", "all"), default="train")
    given = parser.parse_args()
    knowledge = open_knowledge(Home.find().make())
    questions, _ = answerable(load_questions("library"), all_passages(knowledge))
    held = given.split == "test"
    asked = [one for one in questions if given.split == "all" or one.held_out == held]
    scopes = find_scopes(asked)
    print(f"{len(asked)} questions ({given.split})\n")
    print("| search | nDCG@10 | recall@5 | MRR |\n|---|---|---|---|")
    for hops in range(given.hops + 1):
        found = []
        for one in asked:
            query = Query(text=one.ask, scope=scopes[one.id], limit=LIMIT, mode="hybrid", hops=hops)
            found.append([hit.passage for hit in knowledge.retriever.search(query)])
        marks = measure(asked, found)
        means = (np.mean([getattr(mark, name) for mark in marks]) for name in NAMES)
        label = f"deep, {hops} hop{'s' * (hops > 1)}" if hops else "flat"
        print(f"| {label} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


NAMES = ("ndcg", "recall", "mrr")

if __name__ == "__main__":
    main()
