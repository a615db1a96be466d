"""A reply that echoes the key, drips, never ends or nests without end harms nothing; over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from slalom_bench.backends import endpoint as module
from slalom_bench.backends.endpoint import Endpoint, EndpointError, Limits, masked, parse_reply

KEY = 'sk-"secret\\-1'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@contextmanager
def serving(*pieces: bytes, pause: float = 0.0) -> Iterator[str]:
    """A server that answers every request with these pieces, waiting before each, and the last one for ever."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with suppress(OSError), connection:
                    connection.recv(65536)
                    for piece in pieces:
                        time.sleep(pause)
                        connection.sendall(piece)
                    while pause:
                        time.sleep(pause)
                        connection.sendall(pieces[-1])

    threading.Thread(target=answer, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        listening.close()


def post(url: str, tmp_path, monkeypatch, **limits) -> str:
    monkeypatch.setenv(module.KEY_VARIABLE, KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Endpoint(url, tmp_path, Limits(**limits))._post({"model": "m"})


@pytest.mark.parametrize("echo", [KEY.encode(), rb"sk-\u0022secret\\-1", rb"\u0073k-\"secret\u005c-1"])
@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad", b"500 Oops"])
def test_the_key_is_masked_where_replies_enter_however_it_is_spelled(echo, status, tmp_path, monkeypatch):
    body = b'{"error": "' + echo + b'"}' if b"u00" in echo else b"x" * 290 + echo
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n"
    with serving(head + body) as url:
        try:
            said = post(url, tmp_path, monkeypatch)
        except Exception as error:
            said = str(error)
    assert "***" in said
    assert "secret" not in said


@pytest.mark.parametrize("pieces", [(HEAD, b" "), (b"HTTP/1.1 200 OK\r\nX: y", b"y"), (b"",)])
def test_a_drip_of_bytes_ends_with_the_time_limit(pieces, tmp_path, monkeypatch):
    start = time.monotonic()
    with serving(*pieces, pause=0.05) as url, pytest.raises(module._Passing, match=r"within 0\.4 seconds"):
        post(url, tmp_path, monkeypatch, timeout=0.4)
    assert time.monotonic() - start < 5
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(10)
            assert not thread.is_alive()


def test_a_huge_and_a_deep_reply_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_REPLY", 1000)
    with (
        serving(HEAD + b" " * 1001) as url,
        pytest.raises(EndpointError, match="more than 1,000 bytes"),
    ):
        post(url, tmp_path, monkeypatch)
    with pytest.raises(EndpointError, match="nested too deeply"):
        parse_reply("[" * 200_000)
    assert masked(b"[" * 200_000 + b"sk-1", "sk-1").endswith("[***")


@pytest.mark.parametrize("number", ["1e999", "9" * 400, "true", '"x"', "null", "NaN", "-Infinity"])
def test_a_log_probability_that_is_none_is_refused(number):
    listed = '[{"token": "a", "logprob": ' + number + "}]"
    with pytest.raises(EndpointError, match="no usable log-probabilities"):
        parse_reply('{"choices": [{"logprobs": {"content": [{"top_logprobs": ' + listed + "}]}}]}")
