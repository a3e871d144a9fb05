from __future__ import annotations

import json

import pytest


@pytest.mark.slow
def test_a_record_a_page_and_a_history_are_read(make_shell):
    shell = make_shell()
    text = shell("read", "attention-by-tiles").stdout
    assert "kb:ideas/attention-by-tiles.md" in text
    assert "How to write the loop" in text
    page = shell("read", "module", "operator-attention", "--target", "zen4", "--language", "cpp")
    lines = page.stdout.splitlines()
    assert lines[0] == "# Everything about an operator: Attention"
    assert page.stdout.index("pack-the-streamed-operand") < page.stdout.index("wgmma-from-cuda")
    values = json.loads(shell("read", "--history", "online-softmax", "--json").stdout)
    assert values["kind"] == "history"
    assert values["rows"] == []
    assert "No run in this record measured it yet." in values["text"]


@pytest.mark.slow
def test_what_is_not_known_is_one_line_with_near_names(make_shell):
    shell = make_shell()
    for arguments, near in (
        (("attention-by-tile",), "attention-by-tiles"),
        (("module", "operator-atention"), "operator-attention"),
        (("--history", "onlin-softmax"), "online-softmax"),
        (("one", "two"), "expected one name"),
        (("module", "symptoms", "--target", "nothing-such"), "nothing-such"),
    ):
        done = shell("read", *arguments)
        assert done.returncode == 2
        assert near in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert "Example" in shell("read", "--help").stdout
