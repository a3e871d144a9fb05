"""From what a task and the environment say about models to the cast that writes a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kb.config import Home
from kb.errors import ConfigError
from kb.progress import say
from search.settings import ModelSettings
from search.task import TaskFile

if TYPE_CHECKING:
    from kb.app.mailbox import Mail
    from kb.app.session import Session
    from kb.progress import Progress
    from search.authors.model_pool import ModelPool, Role
    from search.runs.spending import Ledger
    from search.runs.storage import Storage
    from synth.models import Model
    from synth.models.budgeted import Price
    from synth.models.prices import Prices

# What is written by a script or by people costs no money.
_UNPAID = ("scripted", "mailbox")
_DEFERRED = (*_UNPAID, "workers")  # their answers are waited for without a thread


def model_settings(settings: TaskFile) -> ModelSettings | None:
    """Return the task's model, else the one that the environment names, None where none does."""
    if settings.model is not None:
        return settings.model
    name = os.environ.get("KB_MODEL")
    return ModelSettings(name=name, base_url=os.environ.get("KB_BASE_URL")) if name else None


def role_settings(settings: TaskFile) -> Mapping[Role, tuple[ModelSettings, ...]]:
    """Return who writes what: `models:` by role, and `model:` where that names nobody."""
    from search.authors.model_pool import ROLES

    named = settings.models
    found: dict[Role, tuple[ModelSettings, ...]] = {
        role: chosen for role in ROLES if named is not None and (chosen := getattr(named, role))
    }
    one = model_settings(settings)
    if one is not None:
        for role in ("ideas", "code", "repair"):
            found.setdefault(role, (one,))
    return found


def model_is_configured(settings: TaskFile) -> bool:
    """Say whether the task or the environment names a model that can write ideas and sources."""
    found = role_settings(settings)
    return "ideas" in found or "code" in found


def check_models(home: Home, settings: TaskFile) -> None:
    """Refuse models that cannot work, before anything that takes time.

    Raises:
        ConfigError: a provider, an address or a price is missing or unknown.
    """
    from kb.app.mailbox import Mail
    from synth.models.prices import Prices

    prices = Prices.load(home.root)
    for models in role_settings(settings).values():
        for one in models:
            make_model(one, Mail())
            if settings.stop.money is not None:
                _check_price(home, prices, one, "stop.money")


def _check_price(home: Home, prices: Prices, model: ModelSettings, cap: str) -> None:
    """See that a cap on money can be kept.

    Raises:
        ConfigError: nobody knows what the model costs.
    """
    from synth.models.prices import FILE

    if not _is_free(model) and not prices.known(model.name):
        raise ConfigError(
            f"{cap}: expected a price for model {model.name!r}, found none: add it to "
            f"{home.root / FILE} as `models: {{{model.name}: {{input: …, output: …}}}}`, "
            "money per million tokens"
        )


def make_cast(
    home: Home,
    settings: TaskFile,
    storage: Storage,
    ledger: Ledger,
    mail: Mail,
    progress: Progress,
) -> ModelPool:
    """Build every model of a task, with its exchanges kept and its calls booked."""
    from search.authors.model_pool import ModelPool, PoolMember
    from synth.models.prices import Prices
    from synth.models.recorded import Recorded
    from synth.models.threaded import Threaded

    prices = Prices.load(home.root)
    heard = _shown(progress)
    capped = next((cap for cap in ledger.shared.caps() if cap.unit == "money"), None)
    made: dict[ModelSettings, Model] = {}
    voices: dict[Role, list[PoolMember]] = {}
    for role, models in role_settings(settings).items():
        for one in models:
            if one not in made:
                if capped is not None:
                    _check_price(home, prices, one, f"the database's cap of {capped}")
                model = make_model(one, mail, heard)
                if settings.search.overlap and one.provider not in _DEFERRED:
                    model = Threaded(model, one.concurrency)
                made[one] = _paid(model, one, ledger, prices)
            kept = Recorded(made[one], storage, noted=ledger.noted(role))
            voices.setdefault(role, []).append(PoolMember(model=kept, settings=one))
    return ModelPool(voices, accounts=ledger)


def lesson_writer(session: Session) -> Model:
    """Return the model that has the ideas, booked as the one that writes lessons."""
    from synth.models.recorded import Recorded

    model = session.cast.members("ideas")[0].model
    assert isinstance(model, Recorded)
    return model.noting(session.ledger.noted("lessons"))


def _paid(model: Model, settings: ModelSettings, ledger: Ledger, prices: Prices) -> Model:
    from synth.models.budgeted import BudgetedModel

    return BudgetedModel(model, ledger, _price(settings, prices))


def _price(settings: ModelSettings, prices: Prices) -> Price:
    if _is_free(settings):
        return lambda _: 0.0
    return partial(prices.cost, settings.name)


def _is_free(settings: ModelSettings) -> bool:
    """Say whether answers cost no money: a server of one's own, a script, a person."""
    from synth.models.prices import is_local

    if settings.provider in _UNPAID:
        return True
    if settings.base_url is not None:
        return is_local(settings.base_url)
    return settings.provider in ("llamacpp", "ollama", "sglang", "vllm")


def _shown(progress: Progress) -> Callable[[str, int], None] | None:
    """Return what shows how far an answer is, None where nobody looks on."""
    if not sys.stderr.isatty():
        return None
    return lambda model, tokens: progress(f"{model} answers, tokens so far", tokens)


def make_model(
    settings: ModelSettings, mail: Mail, heard: Callable[[str, int], None] | None = None
) -> Model:
    """Build the chat back end: a script is read from the file that ``name`` gives.

    Args:
        mail: has the mailboxes of the run.
        heard: told the model and how many tokens of an answer have come so far.
    """
    from synth.models import MODELS

    if settings.provider == "scripted":
        from synth.models.scripted import Scripted

        return Scripted.load(Path(settings.name))
    if settings.provider == "mailbox":
        return mail.box(settings.name)
    if settings.provider == "workers":
        from kb.database import open_engine
        from search.work.prompts import PromptQueue, QueuedModel

        return QueuedModel(PromptQueue(open_engine(Home.find())), settings.name, say=say)
    return MODELS.create(
        settings.provider,
        settings.name,
        base_url=settings.base_url,
        timeout_seconds=settings.timeout_seconds,
        retries=settings.retries,
        say=say,
        heard=heard,
        **({"keys": (settings.key,)} if settings.key is not None else {}),
    )
