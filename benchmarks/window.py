"""How much of the passages lies beyond what the default encoder reads.

    python benchmarks/window.py [FOLDER...]

Reads every document below the folders (the shipped library by default), cuts it as `kb ingest` does, and
counts the encoder's own word pieces.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tokenizers import Tokenizer

from ingest.chunking.split import split
from ingest.document import read_document
from ingest.readers import SUFFIXES
from kb.embedders.minilm import LENGTH, model_folder
from kb.errors import RecordError
from kb.store.documents import Piece, embedded_text
from kb.tokens import count_tokens


def main() -> None:
    roots = [Path(one) for one in sys.argv[1:]] or [Path(__file__).parents[1] / "hardware_docs"]
    pieces: list[Piece] = []
    for path in sorted(path for root in roots for path in root.rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            try:
                pieces += split(read_document(path.read_bytes(), path.name).sections, count_tokens)
            except RecordError as error:
                print(f"refused {path}: {error}", file=sys.stderr)
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    lengths = [
        len(one.ids)
        for one in tokenizer.encode_batch([embedded_text(p.section, p.text) for p in pieces])
    ]
    whole = ["```" in piece.text or "| ---" in piece.text for piece in pieces]
    print("| passages | number | longer than the window | word pieces beyond it |")
    print("| --- | --- | --- | --- |")
    for name, wanted in (("prose", False), ("with a listing or table", True)):
        some = [length for length, one in zip(lengths, whole, strict=True) if one is wanted]
        over = sum(length > LENGTH for length in some)
        beyond = sum(max(0, length - LENGTH) for length in some)
        print(
            f"| {name} | {len(some)} | {over} ({over / max(1, len(some)):.0%}) "
            f"| {beyond} of {sum(some)} ({beyond / max(1, sum(some)):.0%}) |"
        )


if __name__ == "__main__":
    main()
