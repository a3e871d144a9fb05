from __future__ import annotations

import pytest

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
)

PAGES = (
    "/", "/runs/sinkhorn-1", "/runs/int4-linear-1/tree", "/runs/causal-attention-1/nodes/3", "/runs/sinkhorn-1/nodes/17/diff/3",
    "/ideas", "/ideas/cpu-rows-simd", "/documents", "/lessons", "/notes", "/search",
    "/compare/runs/sinkhorn-1/selective-scan-1", "/compare/nodes/sinkhorn-1/3/sinkhorn-1/17",
)  # fmt: skip


DARK = (
    "/",
    "/runs/sinkhorn-1",
    "/runs/causal-attention-1/nodes/3",
    "/ideas/cpu-rows-simd",
)  # of the same sheet


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "paths"), [("light", PAGES), ("dark", DARK)])
def test_axe_finds_nothing_serious(kept_server, open_page, scheme, paths):
    page, _ = open_page(color_scheme=scheme)
    options = {"resultTypes": ["violations"]}
    if scheme == "dark":  # only colours differ
        options["runOnly"] = ["color-contrast"]
    found = []
    for path in paths:
        page.goto(f"{kept_server}{path}")
        for one in axe.Axe().run(page, options=options).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                found += [f"{path}: {one['id']}: {node['html'][:120]}" for node in one["nodes"][:3]]
    assert found == []
