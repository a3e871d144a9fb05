"""Reports as people read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kb.app.history import plan_line
from kb.cli.render.tables import kernel_lines
from kb.units import ratio_text, time_text
from search.graph import Graph, Node
from search.languages.written import written_in
from search.outcome import STANDING, Checked, Passed
from search.runs.report import baseline_seconds, nothing_passed

if TYPE_CHECKING:
    from rich.tree import Tree

_BASELINES = {"eager": "eager", "compile": "torch.compile"}


def report_text(report: dict[str, Any], path: list[dict[str, Any]]) -> str:
    """Return the report of a run: speed-ups with intervals, the source's place, the idea path."""
    best = report["best"]
    # What the winner is written in may be another language than the one that was asked for first.
    written = (best and written_in(best["source"])) or (report["language"],)
    asked = f", precision {report['precision']}" if report.get("precision") else ""
    lines = [
        f"{report['run']}: {report['task']} on {report['target']} in {' and '.join(written)}, "
        f"author {report['author']}{asked}, {report['candidates']} candidate{'s' * (report['candidates'] != 1)} in {report['seconds']:.0f} s "
        f"({report['stop_reason']})"
    ]
    counts = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in report["outcomes"].items())
    lines.append(f"  outcomes:       {counts or 'none'}")
    for name, seconds in baseline_seconds(report).items():
        lines.append(f"  {name + ':':<15} {time_text(seconds) if seconds else 'did not run'}")
    if paid := spending_line(report.get("models") or ()):
        lines.append(f"  models:         {paid}")
    for gone in report.get("withdrawn", ()):
        lines.append(
            f"  withdrawn:      node {gone['node']} passed first and was {gone['outcome'].replace('_', ' ')} when measured "
            f"again: {gone['reason']}"
        )
    if best is None:
        lines.append(f"  {nothing_passed(report)}")
        return "\n".join(lines)
    if not best.get("timed", True):
        lines += _checked_lines(best)
    else:
        lines += _timed_lines(best)
    if best.get("file"):
        lines.append(f"  source:         {best['file']}")
    lines.append("  idea path:")
    for step in path:
        gain = f"{step['speedup']:.2f}x" if step["speedup"] else step["outcome"]
        choices = f" ({step['choices']})" if step.get("choices") else ""
        lines.append(f"    node {step['node']:<4} {gain:>7}  {step['idea']}{choices}")
        lines += [f"                    from {place}" for place in step.get("passages", [])[:3]]
    return "\n".join(lines)


def _timed_lines(best: dict[str, Any]) -> list[str]:
    lines = [f"  best:           {time_text(best['seconds'])} (node {best['node']})"]
    for name, ratio in best["speedup"].items():
        label = f"over {_BASELINES.get(name, name)}"
        lines.append(f"    {label:<19} {ratio_text(ratio)}{_verdict(ratio)}")
    if best.get("degenerate"):
        lines.append(
            "    degenerate          the reference answers the same whatever it is given: counted apart, no lesson"
        )
    for workload, found in best.get("workloads", {}).items():
        told = ", ".join(
            f"{ratio_text(ratio)} over {_BASELINES.get(name, name)}"
            for name, ratio in found.items()
        )
        lines.append(f"      {workload:<17} {told}")
    if best.get("own_share") is not None:
        lines.append(f"    own kernels         {best['own_share']:.0%} of its time")
    lines += [f"      {line}" for line in kernel_lines(best.get("kernels", ()))]
    lines += [f"      the compiler warns: {loss}" for loss in best.get("losses", ())]
    lines += _device_lines(best["profile"])
    if "seen" in best["profile"]:
        lines.append(
            "    the machine was too busy to time it: its processors were seldom there for kb and the program at once"
        )
    return lines


def _device_lines(profile: Mapping[str, float]) -> list[str]:
    """Return how a GPU ran while it was timed."""
    if "sm_clock" not in profile:
        return []
    heat = f", {profile['temperature']:.0f} °C" if "temperature" in profile else ""
    lines = [f"    device              {profile['sm_clock'] / 1e6:.0f} MHz{heat}"]
    if profile.get("drifted"):
        lines.append(
            "    its clock drifted meanwhile: ratios hold, since contenders take turns, seconds do not"
        )
    return lines


def _checked_lines(best: dict[str, Any]) -> list[str]:
    """Return what is known of a source that was not timed."""
    lines = [f"  best:           node {best['node']}, by what its kernels need: nothing was timed"]
    for kernel in best["kernels"]:
        spilled = f", {kernel['spills']} bytes spilled" if kernel["spills"] else ""
        lines.append(
            f"    {kernel['name']:<19} {kernel['architecture']}: {kernel['registers']} registers, "
            f"{kernel['shared']} bytes shared, occupancy {kernel['occupancy']:.0%}{spilled}"
        )
        lines += [f"      the compiler warns: {loss}" for loss in kernel.get("losses", ())]
    if best["unchecked"]:
        lines.append(f"    answers             not checked: {best['unchecked']}")
    else:
        lines.append(
            f"    answers             right in the interpreter, error {best['max_error']:.2g} of "
            f"{best['allowed_error']:.2g} allowed"
        )
    return lines


def beside(outcome: Passed) -> str:
    """Return what stands beside a speed-up: whose kernels its time goes to, whether clocks held and calls were watched."""
    own = "" if outcome.own_share is None else f", own {outcome.own_share:.0%}"
    drifted = ", clock drifted" if outcome.profile.get("drifted") else ""
    return own + drifted + (", machine too busy to tell" if outcome.unseen else "")


def checked_text(outcome: Checked) -> str:
    """Return an outcome that was not timed in a few words."""
    registers = max((kernel.registers for kernel in outcome.kernels), default=0)
    launches = sum(kernel.launches for kernel in outcome.kernels)
    answers = "answers unchecked" if outcome.unchecked else "right"
    spills = ", spills" if any(kernel.spills for kernel in outcome.kernels) else ""
    return f"compiles, {answers}, {launches} launched, {registers} registers{spills}"


def _verdict(ratio: dict[str, float]) -> str:
    if ratio["low"] > 1:
        return ""
    return "  slower" if ratio["high"] < 1 else "  no clear difference"


def tree_of(run: str, graph: Graph, best: int | None) -> Tree:
    """Return the search graph as a tree of ideas and speed-ups."""
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(f"{run} (reference)")
    places: dict[int, Tree] = {}
    for node in graph.nodes:
        above = places[node.parent] if node.parent is not None else root
        style = "bold green" if node.number == best else ("" if _passed(node) else "dim")
        places[node.number] = above.add(Text(_line(node, best), style=style))
    return root


def _passed(node: Node) -> bool:
    return node.outcome is not None and node.outcome.kind in STANDING


def _line(node: Node, best: int | None) -> str:
    if node.outcome is None:
        fate = "pending"
    elif isinstance(node.outcome, Passed):
        fate = f"{node.attempt().speedup:.2f}x{beside(node.outcome)}"
    elif isinstance(node.outcome, Checked):
        fate = checked_text(node.outcome)
    else:
        fate = f"{node.outcome.kind.replace('_', ' ')}: {node.outcome.reason}"
    mark = "  ← best" if node.number == best else ""
    choices = plan_line(node.draft.plan)
    title = f"{node.idea.title} ({choices})" if choices else node.idea.title
    return f"{node.number} [round {node.step.slot.round + 1}] {title}: {fate}{mark}"


def _was_timed(node: dict[str, Any]) -> bool:
    return bool(node["result"]) and node["result"]["kind"] == "passed"


def node_text(node: dict[str, Any]) -> str:
    """Return everything about one node."""
    parts = [
        f"node {node['node']} of {node['run']}, round {node['round'] + 1}, "
        + (
            f"child of node {node['parent']}"
            if node["parent"] is not None
            else "from the reference"
        ),
        f"\n# Idea: {node['idea']} ({node['category']})\n{node['text'].strip()}",
    ]
    if node["plan"]:
        parts.append("\n# Plan\n" + json.dumps(node["plan"], indent=2))
    parts.append(
        "\n# Passages\n" + ("\n".join(f"- {place}" for place in node["passages"]) or "none")
    )
    for prompt in node["prompts"]:
        for message in prompt["request"]["messages"]:
            parts.append(f"\n# Prompt, {message['role']}\n{message['content']}")
        parts.append(f"\n# Reply of {prompt['reply']['model']}\n{prompt['reply']['text']}")
    parts.append(f"\n# Source\n{node['source']}")
    parts.append(f"\n# Difference to its parent\n{node['diff']}")
    kernels = kernel_lines((node["result"] or {}).get("kernels", ())) if _was_timed(node) else []
    if kernels:
        parts.append("\n# Time on the device\n" + "\n".join(kernels))
    if node.get("diagnosis"):
        parts.append("\n# Diagnosis\n" + "\n".join(f"- {line}" for line in node["diagnosis"]))
    parts.append("\n# Outcome\n" + json.dumps(node["result"], indent=2))
    return "\n".join(parts)


def spending_line(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return in one line what was paid for; "" where no model was asked."""
    paid = [row for row in rows if row["paid"]]
    if not paid:
        return ""
    tokens = sum(row["tokens_in"] + row["tokens_out"] for row in paid)
    costs = [row["cost"] for row in paid]
    money = "" if None in costs else f", {sum(costs):.4f} in money"
    calls = sum(row["calls"] for row in paid)
    return f"{calls} requests to {', '.join(sorted({row['model'] for row in paid}))}: {tokens:,} tokens{money}"
