"""What the knowledge base says in every prompt of a run: of the language, of the target, and its rules."""

from __future__ import annotations

from functools import cached_property

from kb.records.schema import Document
from kb.records.types import Scope
from search.prompting.knowledge_view import RecordSource
from synth.context import FORM, Note, Purpose


class LibraryNotes:
    """Finds the records that are quoted whatever is asked for.

    Args:
        language, target: their names.
        scope: of the run: rules for other devices and languages do not bind it.
    """

    def __init__(self, store: RecordSource, language: str, target: str, scope: Scope) -> None:
        self._store = store
        self._language = language
        self._target = target
        self._scope = scope

    @cached_property
    def _notes(self) -> Document | None:
        return self._store.document("language", self._language)

    @cached_property
    def language_name(self) -> str:
        """The language by its title and its name."""
        notes = self._notes
        return f"{notes.record.title} ({self._language})" if notes else self._language

    @cached_property
    def form(self) -> str:
        """What the kernels are in a file of this language."""
        return (getattr(self._notes.record, "form", "") if self._notes else "") or FORM

    @cached_property
    def pack(self) -> Note | None:
        """The target's document, where it says more than its figures."""
        found = self._store.document("target", self._target)
        if found is None or not found.body.strip():
            return None
        return _note(found)

    @cached_property
    def _rules(self) -> tuple[Note, ...]:
        rules = self._store.documents("constraint")
        return tuple(_note(one) for one in rules if one.record.scope.value().admits(self._scope))

    def constraints(self, purpose: Purpose) -> tuple[Note, ...]:
        """Return what binds an answer: who writes code needs the language's notes first."""
        notes = (_note(self._notes),) if self._notes else ()
        return (*self._rules, *notes) if purpose == "ideas" else (*notes, *self._rules)


def _note(document: Document) -> Note:
    return Note(
        name=document.name,
        title=document.record.title,
        document=document.path,
        text=document.body,
    )
