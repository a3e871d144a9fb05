from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kb.web.site import write_site

# The crawl of the plain tests, which is a neighbour and no package.
_SPEC = importlib.util.spec_from_file_location("sites", Path(__file__).parents[1] / "test_site.py")
sites = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sites)


@pytest.mark.slow
def test_kept_runs_are_a_folder_that_opens_from_the_file_system(kept, open_page, tmp_path):
    site = tmp_path / "site"
    # One for a processor and one for a GPU: their sources are long, and all of it is coloured.
    made = write_site(kept, site, ["sinkhorn-1", "int4-linear-1"])
    assert made.pages > 150
    assert sites.dead_links(site) == []
    page, seen = open_page()
    base = site.as_uri()
    page.goto(f"{base}/index.html")
    assert page.locator("tbody tr").count() == 2
    assert page.evaluate("getComputedStyle(document.body).margin") == "0px", (
        "the style sheet is in force"
    )
    page.get_by_role("link", name="sinkhorn-1", exact=True).click()
    page.locator(".zoom button").first.wait_for()  # the script is in force
    page.get_by_role("link", name="node 17").first.click()
    assert "Keep all 256 column sums" in page.locator("h1").inner_text()
    page.wait_for_load_state()  # the keys' script is in force here too
    page.keyboard.press("j")
    page.wait_for_url("**/18.html")
    page.keyboard.press("u")
    page.wait_for_url("**/sinkhorn-1.html")
    page.goto(f"{base}/runs/sinkhorn-1/nodes/17/diff/reference.html")
    assert page.locator("tr.added").count() > 100
    assert seen.errors == []
    assert seen.strangers("file://") == []
