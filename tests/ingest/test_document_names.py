from __future__ import annotations

from ingest.document_names import DocumentNames


def test_a_name_that_another_has_gets_as_many_folders_as_it_takes() -> None:
    names = DocumentNames({})
    assert names.give("/p/a/x/r.md", "r.md") == "r.md"
    assert names.give("/p/b/x/r.md", "r.md") == "x/r.md"
    assert names.give("/p/c/x/r.md", "r.md") == "c/x/r.md"
    assert names.give("/x/r.md", "x/r.md") == "/x/r.md"


def test_a_document_keeps_its_longer_name_and_of_two_with_one_name_the_first_keeps_it() -> None:
    names = DocumentNames({"/p/a/r.md": "r.md", "/p/b/r.md": "r.md", "/p/c/r.md": "p/c/r.md"})
    assert names.give("/p/b/r.md", "r.md") == "b/r.md"
    assert names.give("/p/a/r.md", "r.md") == "r.md"
    assert names.give("/p/c/r.md", "r.md") == "p/c/r.md"
