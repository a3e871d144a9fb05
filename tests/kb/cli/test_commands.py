from __future__ import annotations

import json

import pytest

from kb.native import load_cpp


@pytest.mark.slow
def test_help_shows_every_command_with_an_example(make_shell):
    shell = make_shell()
    text = shell("--help").stdout
    commands = ["init", "ingest", "search", "evolve", "resume", "runs", "show", "tree", "node"]
    for command in [*commands, "best", "ideas", "doctor"]:
        assert command in text
        assert "Example" in shell(command, "--help").stdout


@pytest.mark.slow
def test_search_prints_ranked_passages_with_their_sources(make_shell):
    shell = make_shell()
    done = shell(
        "search", "shared memory bank conflicts", "--target", "h100", "--limit", "3", "--json"
    )
    hits = json.loads(done.stdout)
    assert len(hits) == 3
    assert "bank" in hits[0]["text"].lower()
    for hit in hits:
        assert {"text", "document", "section", "kind", "scope", "score"} <= hit.keys()
    scores = [hit["score"] for hit in hits if not hit["widened"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_ingest_reports_what_became_of_each_file(make_shell):
    shell = make_shell()
    docs = shell.folder / "docs"
    docs.mkdir()
    (docs / "good.md").write_text("# Zebra kernels\n\nStripes of tiles alternate between cores.\n")
    (docs / "binary.md").write_bytes(b"\x00\x01\xff")
    report = json.loads(shell("ingest", docs, "--json").stdout)
    assert len(report["added"]) == 1
    assert len(report["refused"]) == 1
    hits = json.loads(shell("search", "zebra stripes", "--json").stdout)
    assert "good.md" in hits[0]["document"]
    report = json.loads(shell("ingest", docs, "--json").stdout)
    assert len(report["skipped"]) == 1
    (docs / "good.md").unlink()
    assert len(json.loads(shell("ingest", docs, "--json").stdout)["removed"]) == 1


@pytest.mark.slow
def test_doctor_finds_every_part_of_this_machine_working(make_shell):
    done = make_shell()("doctor", "--json")
    findings = json.loads(done.stdout)
    assert done.returncode == 0, findings
    parts = {finding["part"]: finding["state"] for finding in findings}
    for part in ("home", "compiler", "torch", "target", "sandbox", "embeddings", "tokens"):
        assert parts[part] == "works", findings
    assert parts["model"] == "off"


@pytest.mark.slow
def test_ideas_lists_every_shipped_idea(make_shell):
    rows = json.loads(make_shell()("ideas", "--json").stdout)
    assert len(rows) >= 40
    assert all(row["tried"] == 0 for row in rows)


def test_the_loader_of_a_best_file_is_the_one_that_the_judge_used():
    import inspect

    from kb.app.history import standalone

    source = "import torch\nfrom kb.native import load_cpp\nlib = load_cpp('')\n"
    text = standalone(source)
    assert "from kb" not in text
    assert inspect.getsource(load_cpp).strip() in text


@pytest.mark.slow
def test_an_operator_without_a_recipe_is_named_with_exit_code_three(make_shell):
    shell = make_shell()
    (shell.folder / "scan.py").write_text(
        "import torch\n\n\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.linalg.matrix_exp(x)\n\n\n"
        "def get_inputs():\n"
        "    return [torch.eye(8) + 0.1 * torch.rand(8, 8)]\n"
    )
    done = shell("evolve", "scan.py")
    assert done.returncode == 3, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("kb: error")]
    assert "matrix_exp" in line
    assert "model" in line
    assert done.stdout.startswith("No language model is configured")
    assert json.loads(shell("runs", "--json").stdout) == []


def test_help_says_of_each_command_a_whole_sentence(bare_shell):
    listed = bare_shell("--help").stdout.partition("Commands:")[2]
    assert "..." not in listed
    assert "Search for a faster kernel: ideas, implementations, and a" in " ".join(listed.split())
