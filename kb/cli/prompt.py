"""kb prompt: the prompt that a model would be given, with the origin of every part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON, print_json, steps
from kb.config import Home
from kb.errors import ConfigError
from kb.progress import say

if TYPE_CHECKING:
    from kb.app.prompt_preview import PreparedPrompt

EPILOG = (
    "Examples: kb prompt examples/conv2d.yaml | kb prompt examples/conv2d.yaml --node 7 | "
    "kb prompt examples/conv2d.yaml --explain | kb prompt conv2d-1 --diff 3 7 | kb prompt examples/conv2d.yaml --tokens 8000 --json"
)
TASK = typer.Argument(None, help="A task file, a reference program, or the name of a run.")
NODE = typer.Option(None, "--node", "-n", min=0, help="What to improve, or to mend if it failed.")
RUN = typer.Option(None, "--run", help="The run of the node; the task's latest by default.")
PURPOSE = typer.Option(
    None, "--purpose", "-p", help="ideas, draft (as its source was asked for) or repair."
)
TOKENS = typer.Option(None, "--tokens", min=500, help="Room for the prompt, over the model's.")
DIFF = typer.Option(None, "--diff", metavar="N M", help="What differs between two nodes' prompts.")
EXPLAIN = typer.Option(
    False, "--explain", help="Print why each document is quoted, in place of the prompt."
)
TEMPLATES = typer.Option(False, "--templates", help="List the sections and what renders them.")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EPILOG)(prompt)


def prompt(
    task: Path | None = TASK,
    node: int | None = NODE,
    run: str | None = RUN,
    purpose: str | None = PURPOSE,
    tokens: int | None = TOKENS,
    diff: tuple[int, int] | None = DIFF,
    templates: bool = TEMPLATES,
    explain: bool = EXPLAIN,
    json: bool = JSON,
) -> None:
    """Print the exact prompt of a task or a node, with tokens and sources of its parts."""
    from kb.app.prompt_preview import PromptPreview
    from kb.cli.render.prompts import difference, prompt_values

    home = Home.find()
    if templates:
        _list_templates(home, task, as_json=json)
        return
    if task is None:
        raise ConfigError(
            "expected a task file or a run, found none: kb prompt examples/conv2d.yaml"
        )
    with steps() as progress:
        desk = PromptPreview.open(
            home.make(), task, run, tokens, progress, with_run=node is not None or diff is not None
        )
        numbers = (node,) if diff is None else diff
        told = [desk.tell(number, purpose) for number in numbers]
    if json:
        found = [prompt_values(one) for one in told]
        lines = difference(*told) if diff is not None else []
        print_json(found[0] if diff is None else {"prompts": found, "diff": lines})
    elif diff is not None:
        typer.echo("\n".join(difference(*told)))
    elif explain:
        from kb.cli.render.inquiries import explain_inquiry

        typer.echo("\n".join(explain_inquiry(told[0].brief)))
    else:
        _show(told[0])


def _show(told: PreparedPrompt) -> None:
    """Print the prompt as it is sent, and where its parts come from beside it."""
    from kb.cli.render.prompts import origins

    for message in told.brief.prompt.messages:
        typer.echo(f"--- {message.role} ---\n{message.content}\n")
    for line in origins(told):
        say(line)


def _list_templates(home: Home, task: Path | None, *, as_json: bool) -> None:
    from search.prompting.prompts import user_templates
    from search.task import load_task
    from synth.template_loader import ENDING, SHIPPED, Templates

    if task is not None:
        templates = user_templates(load_task(task))
    else:
        folder = home.root / "prompts"
        templates = Templates([folder] if folder.is_dir() else [])
        templates.check()
    names = sorted(path.name.removesuffix(ENDING) for path in SHIPPED.glob(f"*{ENDING}"))
    found: dict[str, Any] = {name: str(templates.place(name)) for name in names}
    if as_json:
        print_json(found)
        return
    for name, place in found.items():
        typer.echo(f"{name:<14} {place}")
