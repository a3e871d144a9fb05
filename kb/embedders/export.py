"""Export a sentence-transformers encoder to ONNX: ``python -m kb.embedders.export MODEL FILE``.

Run as a process of its own by `kb.embedders.minilm`. The file appears only when it is whole and
its vectors agree with those of torch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

PROBES = (
    "shared memory bank conflicts",
    "The tile of the output that a block keeps in registers decides how often each input is read.",
    "float4 v = reinterpret_cast<const float4*>(x)[i]; // 16 bytes a load",
)
MAX_ERROR = 1e-4  # largest difference of an element of the last layer, whose size is about one


def export(model: Path, target: Path) -> None:
    """Write the encoder in folder `model` to the ONNX file `target`, atomically.

    The graph maps ``input_ids`` and ``attention_mask`` (int64, batch x pieces) to the last hidden
    layer (float32, batch x pieces x width).

    Raises:
        FileNotFoundError: the model is not there.
        RuntimeError: the exported graph does not compute what torch computes.
    """
    if not (model / "modules.json").is_file():  # before seconds of imports
        raise FileNotFoundError(f"no sentence-transformers model in {model}")
    import torch
    from sentence_transformers import SentenceTransformer

    sentence = SentenceTransformer(str(model), device="cpu", local_files_only=True)
    encoder = _Encoder.of(sentence[0].auto_model)
    inputs = sentence.tokenizer(list(PROBES), padding=True, return_tensors="pt")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=512)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        draft = Path(folder) / target.name
        torch.onnx.export(
            encoder,
            (ids, mask),
            str(draft),
            input_names=["input_ids", "attention_mask"],
            output_names=["hidden"],
            dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}),
            external_data=False,
            dynamo=True,
            verbose=False,
        )
        with torch.inference_mode():
            _compare(draft, ids, mask, encoder(ids, mask))
        draft.replace(target)


class _Encoder:
    @staticmethod
    def of(inner: Any) -> Any:
        """Wrap `inner` so that it takes two tensors and returns one."""
        import torch

        class LastLayer(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
                return self.inner(
                    input_ids=input_ids, attention_mask=attention_mask
                ).last_hidden_state

        return LastLayer().eval()


def _compare(draft: Path, ids: Any, mask: Any, expected: Any) -> None:
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(str(draft), providers=["CPUExecutionProvider"])
    feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    (found,) = session.run(None, feed)
    real = mask.numpy().astype(bool)
    error = float(np.abs(found - expected.numpy())[real].max())
    if not error <= MAX_ERROR:
        raise RuntimeError(f"the exported encoder differs from torch by {error:g}")


if __name__ == "__main__":
    # The weights are on disk: asking a hub for them would only wait for a time-out.
    os.environ["HF_HUB_OFFLINE"] = "1"
    export(Path(sys.argv[1]), Path(sys.argv[2]))
