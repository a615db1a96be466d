"""HTTP to a chat endpoint: retries, a hard cap on requests, every answer on disk before it is used.

The key comes from the environment at the moment of a request; no attribute, file, message or error ever holds it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
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


def parse_reply(body: bytes) -> Top:
    """The listed first tokens; broken JSON may be a cut transfer and is worth another attempt."""
    try:
        reply = json.loads(body)
    except RecursionError:
        raise EndpointError("a reply that is nested too deeply to be one") from None
    except ValueError:
        raise _Passing(f"a reply that is not JSON: {body[:80]!r}") from None
    try:
        alternatives = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        listed = [(str(item["token"]), item["logprob"]) for item in alternatives]
    except (KeyError, IndexError, TypeError):
        raise EndpointError(
            "the reply has no choices[0].logprobs.content[0].top_logprobs; "
            "use a model and an endpoint that return log-probabilities"
        ) from None
    top = [(token, float(value)) for token, value in listed if isinstance(value, int | float) and math.isfinite(value)]
    if not top or max(value for _, value in top) > 1e-3:
        raise EndpointError(f"the reply lists no usable log-probabilities: {listed[:5]}")
    return sorted(top, key=lambda item: (-item[1], item[0]))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        """Follow none."""
        return None


@dataclass(frozen=True)
class Limits:
    """How much is asked of an endpoint, and for how long."""

    max_requests: int | None = None
    """The hard cap on requests, repeated ones included; None for `MAX_REQUESTS`."""
    timeout: float = 60.0
    """Seconds for one request."""
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
        self._opener = urllib.request.build_opener(_NoRedirect)

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
            self._write(self._path(payload), json.dumps({"url": self.url, "model": payload["model"], "top": answer}))
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

    def _post(self, payload: dict[str, Any]) -> bytes:
        key = api_key()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = urllib.request.Request(self.url, json.dumps(payload).encode(), headers, method="POST")
        try:
            with self._opener.open(request, timeout=self.limits.timeout) as response:
                body = bytes(response.read(LARGEST_REPLY + 1))
                if len(body) > LARGEST_REPLY:
                    raise EndpointError(f"{self.url}: a reply of more than {LARGEST_REPLY:,} bytes")
                return body.replace(key.encode(), b"***") if key else body
        except urllib.error.HTTPError as error:
            detail = error.read(300).decode("utf-8", "replace")
            said = f"HTTP {error.code}: {detail.replace(key, '***') if key else detail}"
            if error.code in PASSING or error.code >= 500:
                raise _Passing(said, retry_after(error.headers.get("Retry-After"))) from None
            hint = f"; the key is read from {KEY_VARIABLE}" if error.code in (401, 403) else ""
            raise EndpointError(f"{self.url}: {said}{hint}") from None
        except (OSError, HTTPException) as error:
            raise _Passing(f"{type(error).__name__}: {error}") from None

    def _path(self, payload: dict[str, Any]) -> Path:
        name = hashlib.sha256(json.dumps([self.url, payload], sort_keys=True).encode()).hexdigest()
        return self.folder / name[:2] / f"{name}.json"

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
