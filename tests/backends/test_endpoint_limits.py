"""A reply that echoes the key, never ends or nests without end harms nothing."""

from __future__ import annotations

import io

import pytest

from slalom_bench.backends import endpoint as module
from slalom_bench.backends.endpoint import Endpoint, EndpointError, Limits, parse_reply


def replying(tmp_path, monkeypatch, body: bytes) -> Endpoint:
    monkeypatch.setenv(module.KEY_VARIABLE, "sk-secret")
    made = Endpoint("http://localhost:1", tmp_path, Limits())
    monkeypatch.setattr(made._opener, "open", lambda request, timeout: io.BytesIO(body))
    return made


def test_the_key_is_masked_where_replies_enter(tmp_path, monkeypatch):
    assert replying(tmp_path, monkeypatch, b"x sk-secret y")._post({"model": "m"}) == b"x *** y"


def test_a_huge_and_a_deep_reply_are_refused(tmp_path, monkeypatch):
    with pytest.raises(EndpointError, match="more than"):
        replying(tmp_path, monkeypatch, b" " * (module.LARGEST_REPLY + 1))._post({"model": "m"})
    with pytest.raises(EndpointError, match="nested too deeply"):
        parse_reply(b"[" * 200_000)
