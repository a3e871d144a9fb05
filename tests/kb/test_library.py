"""Each fault that a library can have, planted in a small one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kb.errors import RecordError
from kb.library import check_library, load_library, main, render_index, write_index

TARGET = """---
kind: target
title: A small device
name: {name}
vendor: acme
architecture: a1
device: cpu
aliases: [{alias}]
languages: [cpp]
units: 4
clock: 2.0e+9
simd_width: 256
flops_per_cycle: {{float32: 32}}
peak: {{float32: {peak}}}
bandwidth: 50.0e+9
sources: {sources}
---
## Figures

Some.
"""
IDEA = """---
kind: idea
title: {title}
category: {category}
scope: {{language: [{language}]}}
symptoms: [memory-bound]
{more}
---
## How

Like this.
"""


def target(
    name: str = "small", alias: str = "tiny", peak: str = "256.0e+9", sources: str = "[a manual]"
) -> str:
    return TARGET.format(name=name, alias=alias, peak=peak, sources=sources)


def idea(
    title: str = "Do less",
    category: str = "memory access",
    language: str = "cpp",
    more: str = "anti: false",
) -> str:
    return IDEA.format(title=title, category=category, language=language, more=more)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "targets").mkdir()
    (tmp_path / "ideas").mkdir()
    (tmp_path / "targets" / "small.md").write_text(target())
    (tmp_path / "ideas" / "less.md").write_text(idea())
    write_index(tmp_path)
    return tmp_path


def only_problem(root: Path) -> str:
    write_index(root)
    (problem,) = check_library(root)
    assert "\n" not in problem
    return problem


def test_a_sound_library_has_no_problems(root: Path) -> None:
    assert check_library(root) == []


def test_documents_are_sorted_and_named_by_their_path_below_the_root(root: Path) -> None:
    assert [d.path for d in load_library(root)] == ["ideas/less.md", "targets/small.md"]
    assert [d.name for d in load_library(root)] == ["less", "small"]


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="found none"):
        load_library(tmp_path)


def test_a_broken_record_is_refused_with_its_path(root: Path) -> None:
    (root / "ideas" / "broken.md").write_text("no front matter")
    with pytest.raises(RecordError, match=r"^ideas/broken\.md: expected YAML"):
        load_library(root)
    assert [p.split(":")[0] for p in check_library(root)] == ["ideas/broken.md"]


def test_a_file_that_is_not_text_is_refused(root: Path) -> None:
    (root / "ideas" / "binary.md").write_bytes(b"---\n\xff\xfe")
    assert check_library(root)[0].startswith("ideas/binary.md: not text (invalid UTF-8 at byte 4)")


def test_two_records_of_one_kind_and_name_are_reported(root: Path) -> None:
    (root / "ideas" / "more").mkdir()
    (root / "ideas" / "more" / "less.md").write_text(idea("Do even less"))
    assert "'less' is already in ideas/less.md" in only_problem(root)


def test_an_alias_that_is_another_targets_name_is_reported(root: Path) -> None:
    (root / "targets" / "other.md").write_text(target(name="other", alias="small"))
    assert "target 'small' is already in" in only_problem(root)


def test_a_recipe_that_refines_a_missing_idea_is_reported(root: Path) -> None:
    more = "recipe: {pattern: rows, refines: nowhere}"
    (root / "ideas" / "finer.md").write_text(idea("Finer", more=more))
    assert "refers to idea 'nowhere'" in only_problem(root)


def test_a_recipe_that_refines_a_known_idea_is_fine(root: Path) -> None:
    more = "recipe: {pattern: rows, refines: less}"
    (root / "ideas" / "finer.md").write_text(idea("Finer", more=more))
    write_index(root)
    assert check_library(root) == []


def test_a_scope_that_no_target_has_is_reported(root: Path) -> None:
    (root / "ideas" / "lost.md").write_text(idea("Lost", language="cp"))
    assert "scope.language 'cp' belongs to no target: known are cpp" in only_problem(root)


def test_a_target_without_sources_is_reported(root: Path) -> None:
    (root / "targets" / "small.md").write_text(target(sources="[]"))
    assert "sources is empty" in only_problem(root)


def test_a_peak_that_contradicts_the_clock_is_reported(root: Path) -> None:
    (root / "targets" / "small.md").write_text(target(peak="300.0e+9"))
    assert "peak float32 is 3e+11 but units x clock x flops_per_cycle is 2.56e+11" in only_problem(
        root
    )


def test_a_peak_rounded_by_less_than_a_tenth_is_accepted(root: Path) -> None:
    (root / "targets" / "small.md").write_text(target(peak="240.0e+9"))
    write_index(root)
    assert check_library(root) == []


def test_a_record_without_text_is_reported(root: Path) -> None:
    (root / "ideas" / "less.md").write_text(idea().split("## How")[0])
    assert "the body is empty" in only_problem(root)


def test_a_missing_and_a_stale_index_are_reported(root: Path) -> None:
    (root / "index.md").unlink()
    assert check_library(root)[0].startswith("index.md is missing")
    write_index(root)
    (root / "ideas" / "new.md").write_text(idea("Something new"))
    assert check_library(root)[0].startswith("index.md is out of date")


def test_the_index_lists_each_record_once_and_ideas_by_category(root: Path) -> None:
    (root / "ideas" / "loops.md").write_text(
        idea("Fewer loops", "control flow and loops", more="anti: true")
    )
    lines = render_index(load_library(root)).splitlines()
    assert "## Targets" in lines
    assert lines.index("## Ideas: memory access") < lines.index("## Ideas: control flow and loops")
    line = next(line for line in lines if "Fewer loops" in line)
    assert line.startswith("- [loops](ideas/loops.md): Fewer loops (cpp)")
    assert "usually loses" in line
    assert sum("(ideas/less.md)" in line for line in lines) == 1


def test_the_command_writes_the_index_and_reports_by_its_exit_code(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "index.md").unlink()
    assert main([str(root)]) == 1
    assert "index.md is missing" in capsys.readouterr().out
    assert main(["--write", str(root)]) == 0
    assert capsys.readouterr().out == ""


def test_the_command_says_what_is_wrong_with_a_folder_that_it_cannot_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--write", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("\n") == 1


def test_loading_the_shipped_records_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kb.library import load_library; from kb.config import shipped_docs;"
        "load_library(shipped_docs());"
        "heavy = {'torch', 'numpy', 'chromadb', 'onnxruntime', 'optuna'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


RECIPE = """anti: false
recipe:
  pattern: rows
  {more}"""


@pytest.mark.parametrize(
    ("template", "more", "said"),
    [
        ("{% if d.rows %}never closed", "knobs: {}", "line 1 of the template: "),
        (
            "BLOCK = {{ k.blok }}",
            "knobs: {block: {choices: [1]}}",
            "reads k.blok, which is no knob",
        ),
    ],
)
def test_a_template_that_cannot_work_is_named(
    tmp_path: Path, template: str, more: str, said: str
) -> None:
    (tmp_path / "small.md").write_text(target())
    text = idea(more=RECIPE.format(more=more))
    (tmp_path / "less.md").write_text(f"{text}\n```jinja\n{template}\n```\n")
    (problem,) = check_library(tmp_path)
    assert problem.startswith("less.md: ")
    assert said in problem


def test_a_refinement_may_bring_the_knob_that_a_template_reads(tmp_path: Path) -> None:
    (tmp_path / "small.md").write_text(target())
    text = idea(more=RECIPE.format(more="knobs: {}"))
    (tmp_path / "less.md").write_text(f"{text}\n```jinja\n{{{{ k.wide }}}}\n```\n")
    more = "refines: less\n  set: {wide: true}"
    (tmp_path / "more.md").write_text(idea(title="Do more", more=RECIPE.format(more=more)))
    write_index(tmp_path)
    assert check_library(tmp_path) == []
