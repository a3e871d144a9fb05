from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

from kb.web.text import address

HERE = Path(__file__).parents[1]
TEXTS = run_path(str(HERE / "hostile.py"))["TEXTS"]


@pytest.mark.slow
def test_no_text_runs_loads_or_hides_anything_in_a_browser(
    runs, look, open_page, serve, passed_outcome, new_idea
):
    write_everywhere = run_path(str(HERE / "test_hostile.py"))["write_everywhere"]
    names = [(write_everywhere(runs, text, passed_outcome, new_idea), text) for text in TEXTS]
    page, seen = open_page()
    with serve(look()) as base:
        paths = ["/", "/?page=2", "/ideas", "/documents", "/notes"]
        paths += [f"/runs/{run}/nodes/0" for run, _ in names]
        paths += [f"/runs/{run}" for run, _ in names[::8]]
        paths += [f"/ideas/{address(text[:400])}" for _, text in names[::8]]
        for path in paths:
            page.goto(f"{base}{path}", wait_until="load")
            state = page.evaluate(
                "[window.hit, document.body.innerText.length, !!document.querySelector('footer')]"
            )
            assert state[0] is None, path
            assert state[1] > 100, path
            assert state[2], path
            assert page.url == f"{base}{path}", path
        page.goto(f"{base}/runs/{names[0][0]}/nodes/0")
        assert TEXTS[0] in page.locator("h1").inner_text()
    assert seen.errors == []
    assert seen.strangers(base) == []
