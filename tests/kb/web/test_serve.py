from __future__ import annotations

import socket

import pytest

from kb.errors import ConfigError
from kb.web.serve import hosts, is_loopback, serve


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_these_are_reached_from_this_machine_alone(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", ""])
def test_these_are_reached_from_elsewhere(host):
    assert not is_loopback(host)


def test_a_loopback_server_answers_to_its_names_with_its_port_only():
    assert hosts("127.0.0.1", 8321) == {"127.0.0.1:8321", "localhost:8321"}
    assert hosts("::1", 80) >= {"[::1]:80", "[::1]"}


def test_a_port_that_is_taken_is_one_line(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="--port"):
            serve(home, "127.0.0.1", port, without_token=False, say=print)


def test_a_host_that_no_machine_can_have_is_one_line(home):
    with pytest.raises(ConfigError, match=r"cannot listen on a\.\.b:0"):
        serve(home, "a..b", 0, without_token=True, say=print)
