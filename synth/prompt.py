"""Prompts: sections rendered by their templates and cut to a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kb.errors import ConfigError
from synth.context import Context, Item, PromptSection, priorities
from synth.models import Message
from synth.quoting import shorten
from synth.template_loader import Templates, shipped

Count = Callable[[str], int]

# A chat protocol wraps each message in a role and two turn markers.
MESSAGE_TOKENS = 8
_SMALLEST = 48  # tokens below which a part of a text tells nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What did not fit.

    Attributes:
        kept: tokens of the item that stayed, 0 where it was left out.
        of: tokens of the whole item; 0 where it was never counted.
    """

    section: str
    item: str
    kept: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPart:
    """A section as it stands in a prompt.

    Attributes:
        passages: ids of those that it quotes.
        template: what it is rendered from: ``shipped``, or the user's file.
        items: names of what it shows: documents, trials, figures.
    """

    name: str
    text: str
    tokens: int
    passages: tuple[str, ...] = ()
    template: str = "shipped"
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is asked.

    Attributes:
        sections: in the order of the prompt.
        tokens: of the messages, with what a chat protocol adds to each.
        passages: ids of the passages quoted; the first one is labelled P1.
        cut: what the budget had no room for.
    """

    messages: tuple[Message, ...]
    sections: tuple[PromptPart, ...]
    tokens: int
    passages: tuple[str, ...]
    cut: tuple[Cut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    part: PromptPart
    cut: tuple[Cut, ...]


@dataclass(frozen=True, slots=True)
class _Writer:
    """Renders sections and counts what they are."""

    templates: Templates
    count: Count

    def text(self, section: PromptSection, items: tuple[Item, ...]) -> str:
        return self.templates.render(section.template, {**section.values, "items": items})

    def part(self, section: PromptSection, items: tuple[Item, ...]) -> PromptPart:
        text = self.text(section, items)
        return PromptPart(
            name=section.name,
            text=text,
            tokens=self.count(text),
            passages=tuple(item.passage for item in items if item.passage is not None),
            template=self.templates.origin(section.template),
            items=tuple(item.name for item in items),
        )


def compose(
    context: Context, budget: int, count: Count, templates: Templates | None = None
) -> Prompt:
    """Build a prompt of at most `budget` tokens.

    The task and the answer format are never cut. Every other section first gets its minimum in
    the order of `priorities`; what is left then goes to them in the same order.

    Args:
        context: all that may be said.
        budget: tokens of the whole prompt.
        count: counts tokens as the model does, or nearly.
        templates: None for the shipped ones.

    Raises:
        ConfigError: the task and the answer format alone are larger than the budget, or a template
            of the user's cannot be used.
    """
    write = _Writer(templates or shipped(), count)
    system = write.templates.render("system", {})
    sections = context.sections()
    fixed = {
        section.name: write.part(section, ()) for section in sections if section.minimum is None
    }
    frame = count(system) + 2 * MESSAGE_TOKENS + 2 * len(sections)
    room = budget - frame - sum(part.tokens for part in fixed.values())
    if room < 0:
        raise ConfigError(
            f"the prompt of task {context.task!r} needs {budget - room} tokens for the reference "
            f"and the answer format alone, and the model's context leaves {budget}: raise "
            "model.context_tokens, lower model.reply_tokens, or shorten the reference"
        )
    fitted = _share(sections, room, write)
    parts = tuple(
        fixed[section.name] if section.name in fixed else fitted[section.name].part
        for section in sections
        if section.name in fixed or fitted[section.name].part.text
    )
    user = "\n\n".join(part.text for part in parts)
    return Prompt(
        messages=(Message(role="system", content=system), Message(role="user", content=user)),
        sections=parts,
        # Parts that are joined count at most what they count apart, with their separators.
        tokens=frame + sum(part.tokens for part in parts),
        passages=tuple(one for part in parts for one in part.passages),
        cut=tuple(cut for one in sections if one.name in fitted for cut in fitted[one.name].cut),
    )


def _omitted(section: PromptSection) -> tuple[Cut, ...]:
    if not section.omitted:
        return ()
    return (Cut(section=section.name, item=f"{section.omitted} items", kept=0, of=0),)


def _share(sections: tuple[PromptSection, ...], room: int, write: _Writer) -> dict[str, _Fitted]:
    """Give every section its minimum, then the rest, by priority."""
    by_name = {section.name: section for section in sections if section.minimum is not None}
    wanted = {name: write.part(section, section.items) for name, section in by_name.items()}
    order = [name for name in priorities() if name in by_name]
    grants = dict.fromkeys(order, 0)
    left = room
    for limit in ("minimum", "all"):
        for name in order:
            most = wanted[name].tokens
            if limit == "minimum":
                most = min(most, by_name[name].minimum or 0)
            more = min(most - grants[name], left)
            grants[name] += more
            left -= more
    fitted = {}
    for name in order:
        # What a section cannot use, because its items are kept whole, goes to the next one.
        fitted[name] = _fit(by_name[name], grants[name] + left, wanted[name], write)
        left += grants[name] - fitted[name].part.tokens
    return fitted


def _fit(section: PromptSection, room: int, whole: PromptPart, write: _Writer) -> _Fitted:
    """Keep the items that fit into `room` tokens, the lowest ranks first."""
    if whole.tokens <= room:
        return _Fitted(part=whole, cut=_omitted(section))
    frame = write.count(write.text(section, ()))
    left = room - frame

    def size_of(item: Item) -> int:
        return write.count(write.text(section, (item,))) - frame

    sizes = {item.rank: size_of(item) for item in section.items}
    kept: dict[int, Item] = {}
    queue = sorted(section.items, key=lambda item: item.rank)
    waiting = sum(sizes.values())
    for item in queue:
        size = sizes[item.rank]
        waiting -= size
        # Half of what is left, or more where the others need less: two beginnings say more than
        # one whole.
        most = max(left // 2, left - waiting)
        if item.divisible and size > most and left >= _SMALLEST:
            item = _divided(item, size, most, write.count)  # noqa: PLW2901 - the shorter one stands for it
            size = size_of(item)
        if item.text and size <= left:
            kept[item.rank] = item
            left -= size
    return _settle(section, kept, room, sizes, write)


def _settle(
    section: PromptSection,
    kept: dict[int, Item],
    room: int,
    sizes: Mapping[int, int],
    write: _Writer,
) -> _Fitted:
    """Render what was kept; sums of parts are estimates, so the whole is counted again."""
    while True:
        items = tuple(kept[item.rank] for item in section.items if item.rank in kept)
        part = write.part(section, items)
        if not items or part.tokens <= room:
            break
        del kept[max(item.rank for item in items)]
    whole = {item.rank: item.text for item in section.items}
    cut = tuple(
        Cut(
            section=section.name,
            item=item.name,
            kept=write.count(kept[item.rank].text) if item.rank in kept else 0,
            of=sizes[item.rank],
        )
        for item in section.items
        if item.rank not in kept or kept[item.rank].text != whole[item.rank]
    )
    if not items:
        part = PromptPart(name=section.name, text="", tokens=0)
    return _Fitted(part=part, cut=(*_omitted(section), *cut))


def _divided(item: Item, size: int, left: int, count: Count) -> Item:
    around = max(0, size - count(item.text))
    return replace(item, text=shorten(item.text, left - around - 4, count))
