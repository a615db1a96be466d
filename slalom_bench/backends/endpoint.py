"""HTTP to a chat endpoint: retries, a hard cap on requests, every answer on disk before it is used.

The key comes from the environment at the moment of a request; no attribute, file, message or error ever holds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import math
import os
import random
import socket
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slalom_bench.core.json_text import TooDeep, parse_json
from slalom_bench.core.writing import write_whole
from slalom_bench.errors import InvalidInput, RunStopped

KEY_VARIABLE = "OPENAI_API_KEY"
LONGEST_WAIT = 60.0
MAX_REQUESTS = 10_000
LARGEST_REPLY = 10_000_000
"""Bytes; a reply lists a few tokens."""
PASSING = (408, 409, 425, 429)
"""Answers worth another attempt, beside every 5xx."""

Top = list[tuple[str, float]]
"""The listed first tokens of a reply and their log-probabilities, the likeliest first."""


class EndpointError(RunStopped):
    """The endpoint refused, failed for good, or answered in another format. Answers so far are cached."""


class RequestCap(RunStopped):
    """The next requests would exceed the hard cap. Answers so far are cached."""


class _Passing(Exception):
    """A failure worth another attempt, with the wait that the server asked for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait or 0.0


def checked_endpoint(base_url: str | None) -> str:
    """The base URL without a trailing slash; credentials or queries in it would end up in caches and are refused."""
    if not base_url:
        raise InvalidInput("openai:MODEL needs the endpoint's address: --base-url https://HOST/v1")
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"a base URL of scheme {parts.scheme!r}; expected http(s)://HOST[:PORT]/PATH")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidInput(f"the base URL of {parts.hostname} must hold no credentials or query; use {KEY_VARIABLE}")
    return base_url.rstrip("/")


def api_key() -> str | None:
    """The key of the environment, or None: local servers need none."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput(f"{KEY_VARIABLE} holds characters that no header can carry")
    return key or None


def retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a Retry-After header in seconds or as a date."""
    try:
        return max(0.0, float(value or ""))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return max(0.0, (when - datetime.now(UTC)).total_seconds()) if when.tzinfo else None


def parse_reply(body: str) -> Top:
    """The listed first tokens; broken JSON may be a cut transfer and is worth another attempt."""
    try:
        reply = parse_json(body)
    except TooDeep:
        raise EndpointError("a reply that is nested too deeply to be one") from None
    except ValueError:
        raise _Passing(f"a reply that is not JSON: {body[:80]!r}") from None
    try:
        alternatives = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        listed = [(str(item["token"]), _number(item["logprob"])) for item in alternatives]
    except (KeyError, IndexError, TypeError):
        raise EndpointError(
            "the reply has no choices[0].logprobs.content[0].top_logprobs; "
            "use a model and an endpoint that return log-probabilities"
        ) from None
    top = [(token, value) for token, value in listed if isinstance(value, float) and math.isfinite(value)]
    if not top or max(value for _, value in top) > 1e-3:
        raise EndpointError(f"the reply lists no usable log-probabilities: {listed[:5]}")
    return sorted(top, key=lambda item: (-item[1], item[0]))


def _number(value: Any) -> float | None:
    """A log-probability as the reply gives it; None where it is no number, or larger than one can be."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def masked(body: bytes, key: str | None) -> str:
    """What came from outside, without the key: in whatever way JSON spells it, and before anything is cut off."""
    text = body.decode("utf-8", "replace")
    if not key:
        return text
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(parse_json(text), ensure_ascii=False)
    for spelling in (key, json.dumps(key)[1:-1]):
        text = text.replace(spelling, "***")
    return text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        """Follow none."""
        return None


def _opener(connections: list[Any]) -> urllib.request.OpenerDirector:
    """Opens requests, follows none elsewhere, and lists the connections it makes."""

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            connections.append(self.sock)

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            connections.append(self.sock)

    class Http(urllib.request.HTTPHandler):
        def http_open(self, request: urllib.request.Request) -> Any:
            return self.do_open(Plain, request)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, request: urllib.request.Request) -> Any:
            return self.do_open(Secure, request)

    return urllib.request.build_opener(_NoRedirect, Http, Https)


def _hang_up(connections: list[Any]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Limits:
    """How much is asked of an endpoint, and for how long."""

    max_requests: int | None = None
    """The hard cap on requests, repeated ones included; None for `MAX_REQUESTS`."""
    timeout: float = 60.0
    """Seconds for one request, from the first byte asked to the last received."""
    attempts: int = 6
    """How often a request is tried."""
    first_wait: float = 1.0
    """Seconds before the second attempt; doubled before each further one."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or (self.max_requests or 0) < 0 or self.timeout <= 0:
            given = f"attempts {self.attempts}, max_requests {self.max_requests}, timeout {self.timeout}"
            raise InvalidInput(f"{given}: too small")


class Endpoint:
    """POST {base_url}/chat/completions. Safe to use from many threads.

    Args:
        base_url: as `checked_endpoint` returns it.
        folder: where answers are kept.
        limits: the cap, the time-out and the retries.
    """

    def __init__(self, base_url: str, folder: Path, limits: Limits) -> None:
        self.url = f"{base_url}/chat/completions"
        self.folder = folder
        self.limits = limits
        self.max_requests = MAX_REQUESTS if limits.max_requests is None else limits.max_requests
        self.sent = 0
        self._lock = threading.Lock()
        self._jitter = random.Random()  # of waiting times only

    def cached(self, payload: dict[str, Any]) -> Top | None:
        """The answer on disk; a damaged file counts as none."""
        try:
            stored = json.loads(self._path(payload).read_text(encoding="utf-8"))
            return [(str(token), float(value)) for token, value in stored["top"]] or None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def ask(self, payload: dict[str, Any]) -> Top:
        """The answer from disk or, with retries, from the endpoint; on disk before it is returned."""
        answer = self.cached(payload)
        if answer is None:
            answer = self._request(payload)
            stored = json.dumps({"url": self.url, "model": payload["model"], "top": answer})
            write_whole(self._path(payload), stored)
        return answer

    def check_cap(self, requests: int) -> None:
        """Refuse, before anything is sent, so many requests more than the cap allows."""
        if self.sent + requests > self.max_requests:
            raise RequestCap(
                f"{requests} more requests after {self.sent} would exceed the cap of {self.max_requests}; "
                "raise it with --max-requests. Every answer so far is cached: a rerun goes on from here"
            )

    def _request(self, payload: dict[str, Any]) -> Top:
        failures = 0
        while True:
            with self._lock:
                self.check_cap(1)
                self.sent += 1
            try:
                return parse_reply(self._post(payload))
            except _Passing as failure:
                failures += 1
                if failures == self.limits.attempts:
                    raise EndpointError(
                        f"{self.url}: gave up after {failures} attempts; the last: {failure}. Answers so far are cached"
                    ) from None
                wait = self.limits.first_wait * 2 ** (failures - 1) * (0.5 + self._jitter.random())
                time.sleep(min(LONGEST_WAIT, max(wait, failure.wait)))

    def _post(self, payload: dict[str, Any]) -> str:
        """The reply, masked; a server that sends byte after byte without end is hung up on when time is over."""
        key = api_key()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = urllib.request.Request(self.url, json.dumps(payload).encode(), headers, method="POST")
        connections: list[Any] = []
        alarm = threading.Timer(self.limits.timeout, _hang_up, [connections])
        alarm.daemon = True
        over = time.monotonic() + self.limits.timeout  # before the alarm is set: what it hangs up on came too late
        alarm.start()
        failed = ""
        try:
            code, hint, body = self._exchange(_opener(connections), request)
        except (OSError, HTTPException) as error:
            failed = f"{type(error).__name__}: {masked(str(error).encode(), key)}"
        finally:
            alarm.cancel()
        if time.monotonic() >= over:
            raise _Passing(f"no whole reply within {self.limits.timeout:g} seconds")
        if failed:
            raise _Passing(failed)
        if len(body) > LARGEST_REPLY:
            raise EndpointError(f"{self.url}: a reply of more than {LARGEST_REPLY:,} bytes")
        said = masked(body, key)
        if code == 200:
            return said
        if code in PASSING or code >= 500:
            raise _Passing(f"HTTP {code}: {said[:300]}", retry_after(hint))
        advice = f"; the key is read from {KEY_VARIABLE}" if code in (401, 403) else ""
        raise EndpointError(f"{self.url}: HTTP {code}: {said[:300]}{advice}")

    def _exchange(self, opener: Any, request: urllib.request.Request) -> tuple[int, str | None, bytes]:
        """Status, Retry-After and at most `LARGEST_REPLY` bytes and one of a reply, whatever its status."""
        try:
            with opener.open(request, timeout=self.limits.timeout) as response:
                return 200, None, bytes(response.read(LARGEST_REPLY + 1))
        except urllib.error.HTTPError as error:
            return error.code, error.headers.get("Retry-After"), bytes(error.read(LARGEST_REPLY + 1))

    def _path(self, payload: dict[str, Any]) -> Path:
        name = hashlib.sha256(json.dumps([self.url, payload], sort_keys=True).encode()).hexdigest()
        return self.folder / name[:2] / f"{name}.json"
