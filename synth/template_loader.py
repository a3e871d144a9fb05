"""Templates of a prompt's sections: the shipped ones, and those that a user puts in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
)

from kb.errors import ConfigError
from synth.quoting import fence, one_line

ENDING = ".md.j2"
SHIPPED = Path(__file__).parent / "templates"


class Templates:
    """Renders sections.

    Args:
        folders: of the user's own templates, the first one that has a section wins; what none has is
            shipped.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = tuple(folders)

    def check(self) -> None:
        """See that every template of the user's stands for a section and can be read.

        Raises:
            ConfigError: one does not, or cannot.
        """
        known = {path.name.removesuffix(ENDING) for path in SHIPPED.glob(f"*{ENDING}")}
        for folder in self._folders:
            for path in sorted(folder.glob("*.j2")):
                name = path.name.removesuffix(ENDING)
                if name not in known:
                    raise ConfigError(
                        f"{path}: no section is called {name!r}: known are {', '.join(sorted(known))} "
                        f"(as NAME{ENDING})"
                    )
                self._get(name)

    def place(self, name: str) -> Path:
        """Return the file that a section is rendered from."""
        for folder in self._folders:
            if (folder / f"{name}{ENDING}").is_file():
                return folder / f"{name}{ENDING}"
        return SHIPPED / f"{name}{ENDING}"

    def origin(self, name: str) -> str:
        """Return what a section is rendered from: ``shipped``, or the user's file."""
        place = self.place(name)
        return "shipped" if place.parent == SHIPPED else str(place)

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """Return a section's text.

        Raises:
            ConfigError: the user's template asks for what is not there.
        """
        template = self._get(name)
        try:
            return str(template.render(values)).strip()
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            if self.place(name).parent == SHIPPED:
                raise
            raise ConfigError(
                f"{self.place(name)}: {' '.join(str(error).split())}: known values are "
                f"{', '.join(sorted(values)) or 'none'}"
            ) from error

    def _get(self, name: str) -> Any:
        try:
            return self._environment.get_template(f"{name}{ENDING}")
        except TemplateSyntaxError as error:
            raise ConfigError(
                f"{self.place(name)} line {error.lineno}: {error.message}: statements stand in <% %>, "
                "values in <$ $>, comments in <# #>"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{self.place(name)}: expected UTF-8, found another encoding"
            ) from error

    @cached_property
    def _environment(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader([*self._folders, SHIPPED]),
            undefined=StrictUndefined,
            autoescape=False,  # noqa: S701 - Markdown, where HTML's escapes would garble sources
            auto_reload=False,  # one run, one wording
            trim_blocks=True,
            lstrip_blocks=True,
            # Braces belong to C++, angle brackets to templates and CUDA launches.
            block_start_string="<%",
            block_end_string="%>",
            variable_start_string="<$",
            variable_end_string="$>",
            comment_start_string="<#",
            comment_end_string="#>",
        )
        environment.filters["fence"] = fence
        environment.filters["one_line"] = one_line
        environment.filters["sentence"] = lambda text: (
            text if text.endswith((".", "…")) else f"{text}."
        )
        return environment


_SHIPPED_ONES = Templates()


def shipped() -> Templates:
    """Return the templates as they come, compiled once."""
    return _SHIPPED_ONES
