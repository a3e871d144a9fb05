from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kb.embedders.minilm as module
from kb.config import Home
from kb.embedders import create_embedder
from kb.embedders.minilm import LENGTH, MiniLm, model_folder
from kb.errors import ConfigError, StoreError, ToolchainError

TEXTS = [
    "shared memory bank conflicts",
    "Keep a tile of the output in registers.",
    "void k(float* x) { x[threadIdx.x] *= 2.f; }",
    "Ünïcode, 数字 and\n\ttabs",
    "word " * 600,  # longer than the encoder reads
    "x",
]


@pytest.fixture(scope="module")
def embedder() -> MiniLm:
    return MiniLm("", Home.find().cache)


@pytest.mark.slow
def test_vectors_agree_with_sentence_transformers(embedder: MiniLm, tmp_path: Path) -> None:
    # A process of its own: importing the library raises warnings of its dependencies.
    script = (
        "import sys, numpy; from pathlib import Path; from kb.embedders import create_embedder; "
        "model = create_embedder('sentence-transformers:' + sys.argv[1], Path()); "
        "texts = Path(sys.argv[2]).read_text().split('\\0'); "
        "assert model.dimension == 384; numpy.save(sys.argv[3], model.embed(texts))"
    )
    (tmp_path / "texts").write_text("\0".join(TEXTS))
    subprocess.run(
        [sys.executable, "-c", script, model_folder(), tmp_path / "texts", tmp_path / "v.npy"],
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
    )
    expected = np.load(tmp_path / "v.npy")
    found = embedder.embed(TEXTS)
    assert (found * expected).sum(axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-4)


@pytest.mark.slow
def test_rows_are_unit_vectors_in_the_order_of_the_texts(embedder: MiniLm) -> None:
    together = embedder.embed(TEXTS)
    assert together.shape == (len(TEXTS), embedder.dimension)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert together == pytest.approx(alone, abs=1e-5)


def test_what_lies_beyond_the_encoders_length_is_not_read(embedder: MiniLm) -> None:
    head = "word " * LENGTH
    one, other = embedder.embed([head + "apple", head + "bank conflict"])
    assert one == pytest.approx(other, abs=1e-6)


def test_progress_ends_with_all(embedder: MiniLm) -> None:
    steps: list[tuple[str, float | None, float | None]] = []
    embedder.embed(["a", "b"], lambda *step: steps.append(step))
    assert steps[-1] == ("embedding", 2, 2)


def test_no_texts_give_no_rows(embedder: MiniLm) -> None:
    assert embedder.embed([]).shape == (0, 384)


@pytest.mark.slow
def test_neither_torch_nor_a_hub_is_imported_once_the_export_is_there(embedder: MiniLm) -> None:
    embedder.embed(["export first"])
    script = (
        "import sys; from kb.config import Home; from kb.embedders import create_embedder; "
        "create_embedder('minilm', Home.find().cache).embed(['x']); "
        "sys.exit(bool({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_other_weights_than_the_pinned_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(module, "model_folder", lambda: tmp_path)
    with pytest.raises(StoreError, match="expected weights with SHA-256 53aa51172d14"):
        MiniLm("", tmp_path / "cache").embed(["x"])


def test_a_failed_export_is_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "check_weights", lambda: None)
    monkeypatch.setattr(module, "model_folder", lambda: tmp_path / "nothing here")
    embedder = MiniLm("", tmp_path / "cache")
    with pytest.raises(ToolchainError, match="exporting the encoder to ONNX failed") as caught:
        embedder.embed(["x"])
    assert "\n" not in str(caught.value)
    assert not embedder.graph.exists()


def test_a_damaged_export_says_which_file_to_delete(tmp_path: Path) -> None:
    embedder = MiniLm("", tmp_path)
    embedder.graph.write_bytes(b"not a graph")
    with pytest.raises(StoreError, match="delete the file"):
        embedder.embed(["x"])


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="XDG_CACHE_HOME"):
        MiniLm("", tmp_path / "file").embed(["x"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nonsense", "unknown embedder 'nonsense'"),
        ("minilm:large", "takes no model"),
        ("sentence-transformers", "expected a model, found none"),
    ],
)
def test_a_wrong_name_is_one_line(spec: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        create_embedder(spec, tmp_path)
