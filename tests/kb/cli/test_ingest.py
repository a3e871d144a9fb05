from __future__ import annotations

import json
import signal
import time

import pytest

GUIDE = """# ROCm tuning guide

## MI300X memory

| | MI300X |
| --- | --- |
| Compute units | 304 |
| L2 cache latency | 310 cycles |

## Softmax kernels

Read each row once. {more}
""".format(more="Words that make a section large enough to be a passage of its own. " * 4)


@pytest.fixture(scope="module")
def shell(make_shell):
    made = make_shell()
    (made.folder / "docs").mkdir()
    (made.folder / "docs" / "guide.md").write_text(GUIDE)
    return made


def test_a_dry_run_writes_nothing_and_tells_what_would_be_made(shell):
    before = (shell.home / "kb.sqlite").read_bytes()
    plan = json.loads(shell("ingest", "docs", "nowhere", "--dry-run", "--json").stdout)
    (one,) = plan["documents"]
    assert (one["document"], one["passages"], one["new"]) == ("docs/guide.md", 2, 2)
    assert plan["to_embed"] == 2
    assert plan["embedding_seconds"] >= 0
    assert [refused["document"] for refused in plan["refused"]] == ["nowhere"]
    assert (shell.home / "kb.sqlite").read_bytes() == before
    done = shell("ingest", "--inspect", "docs/guide.md")
    assert "applies to vendor amd; architecture gfx942" in done.stdout


def test_what_was_made_is_shown_corrected_decided_and_forgotten(shell):
    report = json.loads(shell("ingest", "docs", "--json").stdout)
    assert report["added"] == ["docs/guide.md"]
    assert report["passages"]["docs/guide.md"] == {
        "new": 2,
        "changed": 0,
        "kept": 0,
        "removed": 0,
    }
    assert (report["pending"], report["new_figures"]) == (0, 2)
    (shell.home / "scopes.yaml").write_text("- {document: guide.md, scope: {vendor: []}}\n")
    shell("search", "softmax", "--limit", "1")
    shown = json.loads(shell("ingest", "--inspect", "guide.md", "--json").stdout)
    assert shown["found"] == {"vendor": ["amd"]}
    assert shown["scope"] == {}
    assert shown["passages"][0]["scope"] == {"architecture": ["gfx942"]}

    listed = shell("facts").stdout
    assert "mi300x limits.l2_latency_cycles = 310  [new]" in listed
    assert "1 to decide (0 against the record), 1 agree" in listed
    (fact,) = json.loads(shell("facts", "--json").stdout)
    assert "accepted" in shell("facts", "accept", fact["number"]).stdout
    assert (shell.home / "targets" / "mi300x.yaml").is_file()

    assert "forgotten" in shell("ingest", "--forget", "docs/guide.md").stdout
    done = shell("ingest", "--forget", "docs/guide.md")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_ctrl_c_keeps_what_was_read_and_says_how_to_go_on(make_shell):
    shell = make_shell()
    docs = shell.folder / "many"
    docs.mkdir()
    for number in range(6):
        words = " ".join(f"word{number}x{place}" for place in range(40))
        (docs / f"{number}.md").write_text(f"# Document {number}\n\n{words}\n")
    process = shell.start("ingest", "many")
    assert process.stderr is not None
    for line in process.stderr:
        if "embedding" in line:
            break
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after 6 added" in error
    assert "the same command goes on from here" in error
    assert time.monotonic() - began < 30
    report = json.loads(shell("ingest", "many", "--json").stdout)
    assert (len(report["skipped"]), report["pending"]) == (6, 0)
