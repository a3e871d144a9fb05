import textwrap
from collections.abc import Callable

import pytest

from search.task import Task, TaskFile


@pytest.fixture(scope="session")
def make_task(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Task]:
    """Make a task of a reference's source and settings."""

    def make(source: str, **settings: object) -> Task:
        source = textwrap.dedent(source)
        path = tmp_path_factory.mktemp("task") / "reference.py"
        path.write_text(source)
        chosen = TaskFile.model_validate({"reference": "reference.py", **settings})
        return Task(name="reference", path=path, reference=path, source=source, settings=chosen)

    return make
