"""A home in a process of its own, which learns from runs that another home learns the same of.

python learner.py URL ROOT NAME TOPICS
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

from kb.database import open_url
from kb.records.schema import Claim, Evidence, LessonRecord, ScopeModel
from search.lessons.distill import Lesson
from search.lessons.shared import SharedLessons
from search.lessons.store import LessonStore


def lesson(topic: str, run: str) -> Lesson:
    evidence = Evidence(
        task="softmax", target="zen4", before=1.5e-3, after=1e-3, run=run, node=0,
        at=date(2026, 11, 20), outcome="won",
    )  # fmt: skip
    return Lesson(
        name=topic,
        record=LessonRecord(
            kind="lesson",
            title=f"{topic} helps",
            scope=ScopeModel(operator=("softmax",)),
            claim=Claim(effect="helps", topic=topic, subject=topic, target="zen4"),
            evidence=(evidence,),
            idea="unroll",
            plan={"made": run},
        ),
        body=f"# {topic} helps\n\nIn words of {run}.\n",
    )


def main(url: str, root: str, name: str, topics: int) -> None:
    shared = SharedLessons(open_url(url, "--database"), Path(root))
    book = LessonStore(Path(root), lambda _: None)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(topics):
        known = [
            lesson(f"topic-{number}", f"{name}-{number}"),
            lesson(f"{name}-alone-{number}", name),
        ]
        shared.learning(lambda known=known: book.learn(known, [], date(2026, 11, 20)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
