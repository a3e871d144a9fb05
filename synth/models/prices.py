"""What a request costs: prices from a data file that its user can correct."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb.errors import ConfigError

PACKAGED = Path(__file__).with_name("prices.yaml")
FILE = "prices.yaml"  # in KB_HOME
_MILLION = 1e6
# What may follow the name of a model without making it another one.
_VERSION = re.compile(r"(-(latest|preview|exp|\d{4}-\d{2}-\d{2}|\d{6,8}|\d{2}-\d{2}|\d{3}))+")
_Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Rates(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    input: _Money
    output: _Money
    cached: _Money | None = None


class _Long(_Rates):
    above: int = Field(gt=0)


class _Price(_Rates):
    long: _Long | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = "USD"
    models: dict[str, _Price]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one exchange.

    Attributes:
        cached: the part of `tokens_in` that the provider had in its cache.
    """

    tokens_in: int
    tokens_out: int
    cached: int = 0


class Prices:
    """Prices by model.

    Args:
        models: prices by name.
        currency: of all of them.
    """

    def __init__(self, models: Mapping[str, Any], currency: str) -> None:
        self._models: dict[str, _Price] = dict(models)
        self.currency = currency

    @classmethod
    def load(cls, home: Path | None = None) -> Prices:
        """Read the packaged prices, with those of `home` over them.

        Raises:
            ConfigError: a file cannot be read or is of another form; the message says where.
        """
        found = _read(PACKAGED)
        models, currency = dict(found.models), found.currency
        own = home / FILE if home is not None else None
        if own is not None and own.exists():
            more = _read(own)
            if more.currency != currency:
                models.clear()  # prices in two currencies cannot be added
            models.update(more.models)
            currency = more.currency
        return cls(models, currency)

    def known(self, model: str) -> bool:
        """Say whether a model has a price."""
        return self._find(model) is not None

    def cost(self, model: str, usage: Usage) -> float | None:
        """Return what an exchange cost, None where the model has no price."""
        price = self._find(model)
        if price is None:
            return None
        rates: _Rates = price
        if price.long is not None and usage.tokens_in > price.long.above:
            rates = price.long
        cached = min(usage.cached, usage.tokens_in)
        of_cached = rates.input if rates.cached is None else rates.cached
        return (
            (usage.tokens_in - cached) * rates.input
            + cached * of_cached
            + usage.tokens_out * rates.output
        ) / _MILLION

    def _find(self, model: str) -> _Price | None:
        for name in _spellings(model):
            if name in self._models:
                return self._models[name]
            base = max(
                (
                    known
                    for known in self._models
                    if name.startswith(known) and _VERSION.fullmatch(name[len(known) :])
                ),
                key=len,
                default=None,
            )
            if base is not None:
                return self._models[base]
        return None


FREE = Prices({}, "USD")
"""Knows no price."""


def is_local(url: str | None) -> bool:
    """Say whether an endpoint is on this machine, where a token costs nothing but time."""
    host = urlsplit(url or "").hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _spellings(model: str) -> Iterable[str]:
    """Yield the name as it is, and without the maker that routers put in front."""
    yield model
    if "/" in model:
        yield model.rsplit("/", 1)[1]
    # Routers write claude-opus-4.5 where its maker writes claude-opus-4-5.
    plain = model.rsplit("/", 1)[-1]
    if plain.startswith("claude"):
        yield plain.replace(".", "-")


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"prices {path}: cannot be read ({' '.join(str(error).split())[:160]})"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise ConfigError(
            f"prices {path}: at {place}: {first['msg']}: expected models with input and output, "
            "money per million tokens"
        ) from error
