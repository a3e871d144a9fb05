from __future__ import annotations

import threading
import time

import pytest

from kb.app.live import working_on

pytestmark = pytest.mark.usefixtures("browser")


def shifts(page) -> None:
    """Have a page sum up how far its parts jump while it is shown."""
    page.add_init_script(
        "window.jumped = 0; new PerformanceObserver((list) => list.getEntries().forEach((e) => "
        "{ if (!e.hadRecentInput) window.jumped += e.value; })).observe({type: 'layout-shift', buffered: true});"
    )


def until(page, expression: str) -> None:
    """Wait until an expression is true; the page's own policy lets nobody evaluate text in it again and again."""
    end = time.monotonic() + 15
    while not page.evaluate(expression):
        if time.monotonic() >= end:
            raise TimeoutError(expression)
        time.sleep(0.05)


@pytest.mark.slow
def test_from_the_list_of_runs_to_what_changed_in_a_node(kept_server, open_page):
    page, seen = open_page()
    shifts(page)
    page.goto(f"{kept_server}/")
    assert page.locator("#runs tbody tr").count() == 6
    page.fill("#q", "sinkhorn zen4")
    page.locator("#runs tbody tr").nth(1).wait_for(state="detached")
    page.get_by_role("link", name="sinkhorn-1", exact=True).click()
    page.wait_for_url("**/runs/sinkhorn-1")
    assert "20.73x" in page.locator(".figures").inner_text()
    page.locator("label[for=axis-tokens]").click()
    assert page.locator("figure.axis-tokens").is_visible()
    assert not page.locator("figure.axis-candidates").is_visible()
    page.locator("figure.axis-tokens a.mark").last.click()
    page.get_by_role("link", name="the reference", exact=True).click()
    page.wait_for_url("**/diff/reference")
    assert "against the reference" in page.locator("h1").inner_text()
    assert page.locator("tr.added").count() > 100
    assert page.evaluate("window.jumped") < 0.02
    assert seen.errors == []
    assert seen.strangers(kept_server) == []


@pytest.mark.slow
def test_a_found_run_opens_however_slowly_one_clicks(kept_server, open_page):
    page, seen = open_page()
    page.goto(f"{kept_server}/")
    page.fill("#q", "sinkhorn zen4")
    page.locator("#runs tbody tr").nth(1).wait_for(state="detached")
    page.get_by_role("link", name="sinkhorn-1", exact=True).hover()
    asked = len(seen.requests)
    page.mouse.down()
    page.wait_for_timeout(500)
    assert len(seen.requests) == asked, (
        "leaving the field asks for nothing: the link would be another one"
    )
    page.mouse.up()
    page.wait_for_url("**/runs/sinkhorn-1")
    page.go_back()
    with page.expect_response(lambda response: "sort=speedup" in response.url):
        page.locator("select[name=sort]").select_option("speedup")


@pytest.mark.slow
def test_an_idea_is_followed_through_two_runs(kept_server, open_page):
    page, seen = open_page()
    page.goto(f"{kept_server}/ideas?q=cpu-rows-simd")
    page.locator("#ideas a.go").first.click()
    page.wait_for_url("**/ideas/cpu-rows-simd")
    assert page.locator("svg.gains a").count() >= 3
    listed = page.locator("table.rows a.go")
    runs = {text.rpartition(" ")[0] for text in listed.all_inner_texts()}
    assert {"sinkhorn-1", "causal-attention-1"} <= runs
    for run in ("sinkhorn-1", "causal-attention-1"):
        listed.filter(has_text=run).first.click()
        page.wait_for_url(f"**/runs/{run}/nodes/*")
        page.get_by_role("link", name="what became of it in all runs").click()
        page.wait_for_url("**/ideas/cpu-rows-simd")
    assert seen.errors == []
    assert seen.strangers(kept_server) == []


@pytest.mark.slow
def test_everything_is_reached_by_keys(kept_server, open_page):
    page, seen = open_page()
    page.goto(f"{kept_server}/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    chosen = page.locator("tr.at a.go").inner_text()
    page.keyboard.press("k")
    assert page.locator("tr.at a.go").inner_text() != chosen
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")
    page.goto(f"{kept_server}/runs/sinkhorn-1/nodes/0")
    page.keyboard.press("j")
    page.wait_for_url("**/nodes/1")
    page.keyboard.press("k")
    page.wait_for_url("**/nodes/0")
    page.keyboard.press("u")
    page.wait_for_url("**/runs/sinkhorn-1")
    page.keyboard.press("/")
    page.keyboard.type("jku")
    assert page.locator("#q").input_value() == "jku", "keys are letters where one types"
    page.goto(f"{kept_server}/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**#main")  # the first stop leads past the navigation
    assert seen.errors == []


@pytest.mark.slow
def test_a_tree_is_dragged_and_zoomed(kept_server, open_page):
    page, seen = open_page(viewport={"width": 700, "height": 800})
    page.goto(f"{kept_server}/runs/selective-scan-1/tree")
    width = "Number(document.querySelector('svg.tree').getAttribute('width'))"
    before = page.evaluate(width)
    page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate(width) > before
    page.get_by_role("button", name="Show the whole tree").click()
    assert page.evaluate(width) <= page.locator(".pan").bounding_box()["width"]
    page.get_by_role("button", name="Natural size").click()
    box = page.locator(".pan").bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 250, box["y"] + 40, steps=4)
    page.mouse.up()
    assert page.evaluate("document.querySelector('.pan').scrollLeft") > 100
    assert page.url.endswith("/tree"), "a drag is no click"
    assert seen.errors == []


@pytest.mark.slow
def test_a_run_that_goes_on_is_watched_without_a_reload(
    runs, look, open_page, serve, passed_outcome, new_idea
):
    record = runs.begin("live")
    runs.propose(record, 0, None, *(new_idea(f"Idea {n}") for n in range(40)))
    runs.node(record, (0, 0, 0, 0), passed_outcome(1.5))
    page, seen = open_page()
    with working_on(runs.home, record.run), serve(look()) as base:
        page.goto(f"{base}/runs/live-1")
        page.evaluate("window.kept = true")
        page.locator("label[for=axis-seconds]").click()
        before = page.locator("#table tbody tr").count()
        for n in range(1, 6):
            runs.node(record, (0, n, 0, 0), passed_outcome(1.5 + n))
        page.locator(".figures").get_by_text("6.50x").wait_for()
        until(page, f"document.querySelectorAll('#table tbody tr').length > {before}")
        until(page, "document.querySelectorAll('svg.tree a').length === 6")
        assert page.evaluate("window.kept"), "the page is the same one"
        assert page.locator("figure.axis-seconds").is_visible(), "what was chosen stays chosen"
        quiet = [url for url in seen.requests if "/live?" in url][-1]
        assert "since=" in quiet
        runs.finish(record)
        page.locator(".state.finished").wait_for()
        until(page, "window.kept === undefined")
        time.sleep(0.1)
    assert seen.errors == []
    assert seen.strangers(base) == []


@pytest.mark.slow
def test_a_page_that_watches_does_not_hold_up_the_writer(
    runs, look, open_page, serve, passed_outcome, new_idea
):
    record = runs.begin("busy")
    runs.propose(record, 0, None, *(new_idea(f"Idea {n}") for n in range(60)))
    page, _ = open_page()
    failed: list[Exception] = []

    def write() -> None:
        try:
            for n in range(60):
                runs.node(record, (0, n, 0, 0), passed_outcome(1 + n / 10))
        except Exception as error:  # noqa: BLE001 - told by the test, wherever it was raised
            failed.append(error)

    with serve(look()) as base:
        page.goto(f"{base}/runs/busy-1")
        writer = threading.Thread(target=write)
        writer.start()
        while writer.is_alive():
            page.reload()
        writer.join()
        page.reload()
        assert failed == []
        assert "60 candidates" in page.locator("#table .count").inner_text()


@pytest.mark.slow
def test_a_person_notes_what_they_saw(runs, look, open_page, serve):
    runs.small()
    page, seen = open_page()
    with serve(look()) as base:
        page.goto(f"{base}/runs/rows-1/nodes/3")
        page.get_by_role("button", name="Keep this note").click()
        page.get_by_text("expected a verdict or some words").wait_for()
        page.locator("#notes select").select_option("interesting")
        page.locator("#notes textarea").first.fill("Look <b>here</b>")
        page.get_by_role("button", name="Keep this note").click()
        page.get_by_text("Look <b>here</b>").wait_for()
        page.goto(f"{base}/notes")
        assert "Look <b>here</b>" in page.locator("tbody").inner_text()
        page.locator("a.go").click()
        page.get_by_role("button", name="Take it back").click()
        page.get_by_text("Nobody noted anything here.").wait_for()
    # A refusal is an answer, which the browser's console lists as a failed load.
    assert [line for line in seen.errors if "422" not in line] == []


PAGES = ["/", "/runs/sinkhorn-1", "/runs/int4-linear-1/nodes/12", "/ideas", "/ideas/cpu-rows-simd"]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_pages_are_read_without_scripts(kept_server, open_page, path):
    page, seen = open_page(java_script_enabled=False)
    page.goto(f"{kept_server}{path}")
    assert page.locator("h1").is_visible()
    assert len(page.locator("main").inner_text()) > 200
    if path == "/runs/sinkhorn-1":
        assert page.locator("figure.axis-candidates svg").is_visible()
        assert page.locator("svg.tree a").count() > 5
        page.goto(f"{kept_server}{path}?outcome=passed&sort=speedup")
        assert "20.73x" in page.locator("#table tbody tr").first.inner_text()
    assert seen.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wider_than_a_phone(kept_server, open_page, path):
    page, _ = open_page(viewport={"width": 390, "height": 844})
    page.goto(f"{kept_server}{path}")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
