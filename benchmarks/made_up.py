"""Texts, vectors and questions of a made-up library, for `benchmarks/scale.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

DOCUMENT = 20  # passages of a document
WORDS = 110  # of a passage
VOCABULARY = 60_000
QUESTIONS = 200
VENDORS = ("nvidia", "amd", "intel", "")
LANGUAGES = ("cuda", "hip", "triton", "cpp", "")
SUBJECTS = (
    "shared memory bank conflicts",
    "register spills",
    "uncoalesced loads",
    "a reduction over long rows",
    "softmax in half precision",
    "convolution with small channels",
    "tensor core tiles",
    "occupancy",
    "launch overhead",
    "the roofline",
    "warp divergence",
    "vector loads",
    "prefetching",
    "atomics",
    "layer norm",
    "a matrix product with a narrow output",
    "software pipelining",
    "asynchronous copies",
    "the second-level cache",
    "wavefront size",
)
FORMS = (
    "how do I get rid of {}",
    "what limits a kernel with {}",
    "{} on the H100",
    "why is {} slow here",
    "an example of {} in Triton",
    "which counter shows {}",
    "{} and how much it gains",
    "when does {} not matter",
    "how AMD hardware deals with {}",
    "the best tile size given {}",
)


def questions() -> list[str]:
    return [form.format(subject) for form in FORMS for subject in SUBJECTS][:QUESTIONS]


# --- phases: each is one process ---------------------------------------------------------------------


def anchor_vectors() -> np.ndarray:
    """Vectors of the shipped documents: what real ones look like."""
    from kb.config import Home, shipped_docs
    from kb.embedders import create_embedder

    kept = Path(os.environ["SCALE_FOLDER"]) / "anchors.npy"
    if not kept.exists():
        texts = []
        for path in sorted(shipped_docs().rglob("*.md")):
            texts += [part for part in path.read_text().split("\n## ") if len(part) > 200][:3]
        vectors = create_embedder("minilm", Home.find().cache).embed(texts[:400])
        np.save(kept, vectors)
    found: np.ndarray = np.load(kept)
    return found


def make_vectors(rng: np.random.Generator, anchors: np.ndarray, count: int) -> np.ndarray:
    """Mix three anchors and a tenth to a half of noise: neighbours at every distance."""
    shares = rng.dirichlet((1.0, 0.5, 0.25), count).astype(np.float32)
    chosen = anchors[rng.integers(0, len(anchors), (count, 3))]
    mixed = np.einsum("nk,nkd->nd", shares, chosen)
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    noise = rng.standard_normal(mixed.shape, np.float32) / np.sqrt(np.float32(mixed.shape[1]))
    found = mixed + rng.uniform(0.3, 0.9, (count, 1)).astype(np.float32) * noise
    unit: np.ndarray = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit.astype("<f4")


def make_texts(rng: np.random.Generator, count: int) -> list[str]:
    """Words by Zipf's law, the commonest being those that questions use."""
    common = sorted({word for text in questions() for word in text.lower().split()})
    numbers = np.minimum(rng.zipf(1.25, (count, WORDS)), VOCABULARY) - 1
    words = [*common, *(f"term{number:x}" for number in range(VOCABULARY))]
    return [" ".join(words[number] for number in row) for row in numbers.tolist()]


def document(number: int) -> dict[str, Any]:
    scope = {"vendor": VENDORS[number % 4], "language": LANGUAGES[number % 5]}
    plain = {name: [value] if value else [] for name, value in scope.items()}
    return {
        "id": number + 1,
        "key": f"/made/{number}.md",
        "shown": f"made/{number}.md",
        "digest": str(number),
        "kind": "document",
        "name": str(number),
        "title": f"Document {number}",
        "body": "",
        "scope": json.dumps(plain),
        "symptoms": "[]",
        "ingested": 0.0,
    }


def passage(number: int, name: str, text: str) -> dict[str, Any]:
    return {
        "id": name,
        "document_id": number // DOCUMENT + 1,
        "position": number % DOCUMENT,
        "section": f"Document {number // DOCUMENT} > Part {number % DOCUMENT}",
        "text": text,
        "tokens": 2 * WORDS,
        "content": name,
    }
