"""`kb mcp` as a program uses it: a real process, spoken to by the protocol's own client."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from kb.app.mcp.tools import INSTRUCTIONS

pytestmark = pytest.mark.timed

CPP = '''import ctypes
import torch
from kb.native import load_cpp

CPP_SOURCE = r"""
extern "C" void relu(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
"""
lib = load_cpp(CPP_SOURCE)
lib.relu.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
'''
WRONG = CPP.replace("x[i] > 0 ? x[i] : 0", "x[i]")
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 257)]
"""
IDEA = {
    "title": "One plain loop",
    "idea": "One pass over it, which the compiler makes vectors of.",
    "category": "memory access",
}


class Client:
    """Calls tools, and keeps what was told on the way."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.told: list[str] = []

    async def __call__(self, tool: str, **arguments: object) -> Any:
        async def progress(_done: float, _total: float | None, message: str | None) -> None:
            self.told.append(message or "")

        found = await self.session.call_tool(tool, arguments, progress_callback=progress)
        text = found.content[0].text if found.content else ""
        assert not found.is_error, text
        values = found.structured_content
        return values["result"] if set(values or {}) == {"result"} else values

    async def refused(self, tool: str, **arguments: object) -> str:
        found = await self.session.call_tool(tool, arguments)
        assert found.is_error
        return found.content[0].text


async def work(shell: Any, story: Any) -> None:
    command = shell.command("mcp")
    place = StdioServerParameters(
        command=command[0], args=command[1:], env=shell.env, cwd=shell.folder
    )
    with (shell.folder / "log").open("a") as log:
        async with (
            stdio_client(place, errlog=log) as (read, write),
            ClientSession(read, write) as session,
        ):
            hello = await session.initialize()
            assert hello.instructions == INSTRUCTIONS
            await story(Client(session))


async def first(call: Client) -> None:
    tools = {tool.name for tool in (await call.session.list_tools()).tools}
    assert tools == {
        "search_knowledge", "read_record", "read_module", "idea_history", "list_runs", "run_history", "read_node", "idea_histories",
        "open_task", "brief", "submit_candidate", "finish_run",
    }  # fmt: skip
    assert "no task is open: call open_task" in await call.refused("brief")
    assert "does not exist" in await call.refused("open_task", task="none.yaml")
    hits = await call("search_knowledge", question="vector registers on the cpu", limit=2)
    assert len(hits) == 2
    assert all(hit["document"] and hit["text"] for hit in hits)
    whole = await call("read_record", name="online-softmax")
    assert "What the online form does" in whole["text"]
    assert whole["passages"][0]["document"] == "kb:ideas/online-softmax.md"
    page = await call("read_module", name="operator-softmax", language="cpp")
    assert "- cpu-rows-simd: " in page["text"]
    assert "measured it yet" in (await call("idea_history", name="cpu-rows-simd"))["text"]
    assert "the nearest are online-softmax" in await call.refused(
        "read_record", name="onlin-softmax"
    )

    opened = await call("open_task", task="ref.yaml")
    assert any("baselines" in line for line in call.told)
    assert opened["run"] == "ref-1"
    assert opened["baselines"]["eager"] > 0
    assert opened["diagnosis"]
    assert "Model(torch.nn.Module)" in opened["reference"]
    text = await call("brief")
    assert "torch.relu(x)" in text
    assert "read NAME" not in text, "who asks has tools for that"
    assert (await call("read_record", name="peel-the-tail"))["passages"]
    assert "ideas" in text

    wrong = await call("submit_candidate", source=WRONG, **IDEA)
    assert (wrong["node"], wrong["outcome"]) == (0, "wrong")
    assert wrong["best"] is None
    mending = await call("brief", node=0)
    assert wrong["result"]["reason"] in mending
    good = await call("submit_candidate", source=CPP, **IDEA)
    assert (good["node"], good["outcome"]) == (1, "passed")
    assert good["diagnosis"]
    assert good["best"]["node"] == 1
    again = await call("submit_candidate", source=CPP, parent=1, **{**IDEA, "title": "The same"})
    assert again["judged_before"] is True

    assert "no node 9" in await call.refused("submit_candidate", source=CPP, parent=9, **IDEA)
    assert "one of memory access" in await call.refused(
        "submit_candidate", source=CPP, **{**IDEA, "category": "magic"}
    )
    assert "ModelNew" in await call.refused("submit_candidate", source="x = 1", **IDEA)
    written = await call("brief", node=1, title="Prefetch", idea="Fetch lines ahead.")
    assert "Fetch lines ahead." in written
    assert "lib.relu" in written


async def second(call: Client) -> None:
    assert (await call("list_runs"))[0]["status"] == "interrupted"
    opened = await call("open_task", task="ref-1")
    assert opened["nodes"] == 3
    history = await call("run_history", run="ref-1")
    assert [(n["node"], n["parent"], n["branch"], n["round"]) for n in history["nodes"]] == [
        (0, None, 0, 0),
        (1, None, 1, 0),
        (2, 1, 0, 1),
    ]
    node = await call("read_node", run="ref-1", node=1)
    assert node["source"] == CPP
    assert node["result"]["kind"] == "passed"
    rows = await call("idea_histories")
    peeled = next(
        row
        for row in await call("idea_histories", tried_only=False)
        if row["idea"] == "peel-the-tail"
    )
    assert peeled["retrieved"] >= 1, "what was read counts as retrieved"
    plain = next(row for row in rows if row["idea"] == "One plain loop")
    assert (plain["tried"], plain["passed"]) == (2, 1)
    report = await call("finish_run")
    assert report["stop_reason"] == "ended by its author"
    assert report["best"]["speedup"]["eager"]["low"] > 0
    assert "finished" in await call.refused("submit_candidate", source=CPP, **IDEA)


@pytest.mark.slow
def test_candidates_sent_from_outside_are_judged_and_stand_in_the_same_record(make_shell):
    shell = make_shell()
    (shell.folder / "ref.py").write_text(REFERENCE)
    (shell.folder / "ref.yaml").write_text(
        "{reference: ref.py, final_seconds: 0.2, timing_seconds: 0.2, compiler: false}"
    )
    # In a thread: the browser of tests of pages keeps a loop in this one.
    with ThreadPoolExecutor(1) as alone:
        alone.submit(anyio.run, work, shell, first).result()
        alone.submit(anyio.run, work, shell, second).result()
    (row,) = json.loads(shell("runs", "--json").stdout)
    assert (row["author"], row["status"], row["candidates"]) == ("mcp", "finished", 3)
    assert "y[i] = x[i] > 0" in shell("best", "ref-1").stdout
    log = (shell.folder / "log").read_text()
    assert "Traceback" not in log


def test_without_its_package_the_command_says_what_to_install(monkeypatch):
    from kb.cli.mcp import serve
    from kb.errors import ConfigError

    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "kb.app.mcp.tools", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'kernel-kb\[mcp\]'"):
        serve()
