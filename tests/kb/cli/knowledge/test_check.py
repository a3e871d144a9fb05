"""`kb check` on small libraries with a fault each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kb.cli.commands import app
from kb.records.library import write_index

TARGET = """---
kind: target
title: A small device
name: small
vendor: acme
architecture: a1
device: cpu
languages: [cpp, triton]
units: 4
clock: 2.0e+9
simd_width: 256
peak: {float32: 256.0e+9}
bandwidth: 50.0e+9
sources: [a manual]
---
## Figures

Some.
"""
IDEA = """---
kind: idea
title: One loop for a chain
category: memory access
scope: {{language: [{language}]}}
recipe: {{pattern: {pattern}, knobs: {{width: {{choices: [8]}}}}}}
---
## How

Like this.

```jinja
{template}
```
"""
# What the loop of `cpu-pointwise-fused` comes to, for one fixed signature.
GOOD = """extern "C" void {{ fn }}(const float* const* in, float* const* out) {
  for (long i = 0; i < 8; ++i) out[0][i] = in[0][i];
}"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "small.md").write_text(TARGET)
    return tmp_path


def plant(root: Path, template: str, language: str = "cpp", pattern: str = "pointwise") -> None:
    text = IDEA.format(language=language, pattern=pattern, template=template)
    (root / "loop.md").write_text(text)
    write_index(root)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


@pytest.mark.slow
def test_a_sound_library_exits_with_zero_and_says_nothing(root: Path) -> None:
    plant(root, GOOD)
    done = run(root, "--build")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "2 records, 0 findings" in done.stderr


def test_each_finding_is_a_line_and_the_exit_code_is_one(root: Path) -> None:
    (root / "small.md").write_text(TARGET.replace("sources: [a manual]", "sources: []"))
    (root / "bad.md").write_text("no front matter")
    done = run(root)
    assert done.exit_code == 1
    first, second = done.stdout.splitlines()
    assert first.startswith("bad.md: expected YAML front matter")
    assert second.startswith("small.md: sources is empty")


def test_findings_are_told_to_programs_by_kind(root: Path) -> None:
    (root / "bad.md").write_text("no front matter")
    done = run(root, "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    assert [(f["kind"], f["path"]) for f in told["faults"]] == [("schema", "bad.md")]


@pytest.mark.slow
def test_pages_that_are_stale_are_written_when_asked_for(root: Path) -> None:
    assert run(root, "--no-recipes").exit_code == 0  # a folder of one's own needs no index
    (root / "index.md").write_text("old")
    assert "index.md is out of date" in run(root, "--no-recipes").stdout
    assert run(root, "--no-recipes", "--write").exit_code == 0
    assert "small" in (root / "index.md").read_text()


def test_records_of_ones_own_may_speak_of_shipped_ones(root: Path) -> None:
    lesson = """---
kind: lesson
title: Short rows in one warp
idea: one-warp-a-row
scope: {vendor: [nvidia], architecture: [sm_90], language: [triton]}
evidence: [{task: softmax, target: h200, before: 2.0e-3, after: 1.0e-3}]
---
## What was seen

One warp a row.
"""
    (root / "small.md").unlink()
    (root / "rows.md").write_text(lesson)
    assert run(root).exit_code == 0
    (root / "rows.md").write_text(lesson.replace("one-warp-a-row", "two-warps-a-row"))
    assert "two-warps-a-row" in run(root).stdout


def test_a_recipe_that_does_not_render_is_reported(root: Path) -> None:
    plant(root, "{{ d.no_such_size + k.width }}")
    done = run(root)
    assert done.exit_code == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith("loop.md: rendering it for a chain of elements fails: ")
    assert "no_such_size" in line


@pytest.mark.slow
def test_a_recipe_that_fits_nothing_is_reported(root: Path) -> None:
    plant(root, '{{ unfit("never") }}')
    assert "fits none of the" in run(root).stdout


def test_recipes_may_be_left_out(root: Path) -> None:
    plant(root, '{{ unfit("never") }}')
    assert run(root, "--no-recipes").exit_code == 0


@pytest.mark.slow
def test_a_recipe_that_does_not_compile_is_reported_only_by_a_build(root: Path) -> None:
    plant(root, GOOD.replace("out[0][i] =", "out[0][i] ="[:-1]))
    assert run(root).exit_code == 0
    done = run(root, "--build")
    assert done.exit_code == 1
    assert done.stdout.startswith(
        "loop.md: does not work in cpp for a chain of elements: it does not compile: "
    )


REFUSED = """@triton.jit
def {{ fn }}_kernel(x, y):
    tl.store(y + tl.arange(0, 3), tl.load(x + tl.arange(0, 3)))


def {{ fn }}({{ p.tensors }}):
    y0 = torch.empty_like(t0)
    {{ fn }}_kernel[(1,)](t0, y0)
    return (y0,)"""
WRONG = """@triton.jit
def {{ fn }}_kernel(y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.zeros((B,), tl.float32), mask=i < n)


def {{ fn }}({{ p.tensors }}):
    y0 = torch.empty_like(t0)
    {{ fn }}_kernel[(triton.cdiv(y0.numel(), 256),)](y0, y0.numel(), 256)
    return (y0,)"""


@pytest.mark.slow
def test_gpu_recipes_that_triton_refuses_or_that_answer_wrong_are_reported(root: Path) -> None:
    pytest.importorskip("triton", reason="a dry run needs triton")
    plant(root, REFUSED, language="triton")
    (root / "loop.md").rename(root / "refused.md")
    plant(root, WRONG, language="triton")
    done = run(root, "--build")
    assert done.exit_code == 1
    wrong, refused = done.stdout.splitlines()
    assert wrong.startswith("loop.md: does not work in triton for a chain of elements: ")
    assert "differs from the reference" in wrong
    assert refused.startswith("refused.md: does not work in triton for a chain of elements: ")
    assert "power of 2" in refused


def test_a_folder_that_is_no_library_is_one_line(tmp_path: Path) -> None:
    from kb.errors import RecordError

    done = run(tmp_path / "nowhere")
    assert isinstance(done.exception, RecordError)
    assert "expected a folder of records" in str(done.exception)
    assert isinstance(run(tmp_path).exception, RecordError)
