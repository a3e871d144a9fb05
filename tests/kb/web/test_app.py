from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient

from kb.app.history import open_run, run_rows
from kb.app.live import working_on
from kb.web.app import make_app
from kb.web.guard import WRITES, Doors

HOST = "127.0.0.1:8321"
BASE = f"http://{HOST}"


@pytest.fixture
def client(runs, look):
    runs.small()
    return TestClient(make_app(look(), Doors(hosts=frozenset({HOST}))), base_url=BASE)


@pytest.fixture
def locked(runs, look):
    runs.small()
    doors = Doors(hosts=frozenset({HOST}), token="right")
    return TestClient(make_app(look(), doors), base_url=BASE, follow_redirects=False)


PAGES = ["/", "/runs/rows-1", "/runs/rows-1/nodes/3", "/runs/rows-1/nodes/3/diff/reference"]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_html_that_may_load_nothing_from_elsewhere(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in answer.headers
    assert " style=" not in answer.text
    assert "http://" not in answer.text
    assert "https://" not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_its_values_as_json(client, path):
    answer = client.get("/index.json" if path == "/" else f"{path}.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(json.loads(answer.text), dict)


def test_the_json_of_a_node_holds_its_source_and_its_outcome(client):
    told = client.get("/runs/rows-1/nodes/1.json").json()
    assert told["outcome"]["kind"] == "build_failed"
    assert told["outcome"]["detail"] == "line 3: foo"
    assert "class Model" in told["source"]


@pytest.mark.parametrize(
    "path",
    ["/runs/none", "/runs/rows-1/nodes/99", "/runs/rows-1/nodes/-1", "/runs/rows-1/nodes/x",
     "/runs/rows-1/nodes/3/diff/2", "/runs/..%2f..%2fetc", "/nothing", "/static/../app.py"],
)  # fmt: skip
def test_what_is_not_on_record_is_not_found(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:9999", "localhost:8321.evil.example", ""]
)
def test_another_host_gets_nothing(client, host):
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 421
    assert "rows-1" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:8321"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_a_page_of_another_origin_gets_nothing(client, headers):
    assert client.get("/", headers=headers).status_code == 403


def test_a_link_from_another_page_may_be_followed(client):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_method_is_answered(client, method):
    assert client.request(method, "/").status_code == 405


def test_a_post_without_the_header_is_refused_before_anything_looks_at_it(client):
    assert client.post("/runs/rows-1", headers={"Origin": BASE}).status_code == 403
    assert client.post("/runs/rows-1", headers={WRITES: "wrong", "Origin": BASE}).status_code == 403


def test_no_query_names_a_file_or_a_database(client):
    for query in (
        "?db=/etc/passwd",
        "?db_path=x.sqlite",
        "?file=../../x",
        "?page=-1",
        "?page=9999999999",
    ):
        answer = client.get(f"/{query}")
        assert answer.status_code == 200
        assert "rows-1" in answer.text


def test_pages_say_of_a_run_what_kb_runs_says_once_its_process_is_gone(runs, client):
    run = runs.begin("later").run
    version = []

    def told() -> set[str]:
        page = client.get(f"/runs/{run}.json").json()
        version.append(page["version"])
        listed = {
            row["run"]["run"]: row["run"]["state"]
            for row in client.get("/index.json").json()["rows"]
        }
        (row,) = (row for row in run_rows(runs.home) if row["run"] == run)
        return {
            page["run"]["state"],
            listed[run],
            row["status"],
            open_run(runs.home, run).row.status,
        }

    with working_on(runs.home, run):
        assert told() == {"running"}
        assert "every 2s" in client.get(f"/runs/{run}").text
    assert told() == {"interrupted"}
    assert "state interrupted" in client.get("/").text
    assert "every 2s" not in client.get(f"/runs/{run}").text
    watched = client.get(f"/runs/{run}/live", params={"since": version[0]})
    assert watched.headers["HX-Refresh"] == "true", "a page that watched it is told"
    assert client.get(f"/runs/{run}/live", params={"since": version[1]}).status_code == 204


class TestToken:
    def test_without_it_a_browser_is_asked_and_a_program_refused(self, locked):
        asked = locked.get("/", headers={"Accept": "text/html"})
        assert (asked.status_code, asked.headers["location"]) == (303, "/login")
        assert locked.get("/index.json").status_code == 401
        assert locked.get("/static/kb.css").status_code == 401
        assert "rows-1" not in locked.get("/login").text

    def test_it_opens_by_header_or_by_cookie(self, locked):
        assert locked.get("/", headers={"Authorization": "Bearer right"}).status_code == 200
        assert locked.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 401
        answer = locked.post("/login", data={"token": "right"}, headers={"Origin": BASE})
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert locked.get("/").status_code == 200, "the client keeps the cookie"

    def test_a_wrong_one_opens_nothing(self, locked):
        answer = locked.post("/login", data={"token": "wrong"}, headers={"Origin": BASE})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


class TestHome:
    def test_it_lists_runs_with_what_they_found(self, client):
        page = client.get("/").text
        assert "rows-1" in page
        assert "3.00x" in page
        assert "Write past the caches" in page

    def test_words_filter_the_list(self, client):
        assert "rows-1" in client.get("/?q=softmax+zen4").text
        assert "No run fits" in client.get("/?q=softmax+mi300x").text
        assert "No run fits" in client.get("/?state=running").text

    def test_pages_of_many_runs_are_turned(self, runs, look):
        for _ in range(60):
            runs.begin("many")
        client = TestClient(make_app(look(), Doors(hosts=frozenset({HOST}))), base_url=BASE)
        assert "page 1 of 2" in client.get("/").text
        second = client.get("/index.json?page=2").json()
        assert (second["page"], second["pages"], len(second["rows"])) == (2, 2, 10)
