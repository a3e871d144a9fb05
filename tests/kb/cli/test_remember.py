"""What one run learned, the next one starts from."""

from __future__ import annotations

import json

import pytest

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        y = torch.sigmoid(x) * x
        return torch.clamp(y * 0.5 + x, -2.0, 2.0)


def get_inputs():
    return [torch.randn({rows}, {columns})]
"""


@pytest.mark.slow
def test_a_run_of_a_neighbouring_shape_starts_from_what_won(make_shell):
    shell = make_shell()
    for name, rows, columns in (("large", 512, 1024), ("small", 300, 777)):
        text = REFERENCE.replace("{rows}", str(rows)).replace("{columns}", str(columns))
        (shell.folder / f"{name}.py").write_text(text)
    first = json.loads(shell("evolve", "large.py", "--candidates", "4", "--json").stdout)
    assert first["best"]["speedup"]["eager"]["low"] > 1
    (lesson,) = (shell.home / "lessons").glob("*-won.md")
    assert first["run"] in lesson.read_text()
    second = json.loads(shell("evolve", "small.py", "--candidates", "3", "--json").stdout)
    won = json.loads(shell("node", first["run"], first["best"]["node"], "--json").stdout)
    start = json.loads(shell("node", second["run"], 0, "--json").stdout)
    assert "what won on large" in start["idea"]
    assert start["choices"] == won["choices"]
    # The lesson that it started from: where the second run has confirmed it, it was rewritten.
    assert any("lessons" in place or "rewritten since" in place for place in start["passages"])
    # What the second run found of the lesson is kept with it.
    assert f"run: {second['run']}" in lesson.read_text()
    listed = json.loads(shell("lessons", "--json").stdout)
    assert {row["status"] for row in listed} == {"active"}
    assert lesson.stem in {row["name"] for row in listed}
    rows = json.loads(shell("ideas", "--json").stdout)
    tried = [row for row in rows if row["tried"]]
    assert sum(row["tried"] for row in tried) == first["candidates"] + second["candidates"]
    assert {"large", "small"} <= {task for row in tried for task in row["tasks"]}
    assert any(row["retrieved"] for row in rows)
