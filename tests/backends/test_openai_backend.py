"""`openai:MODEL` over real HTTP: a local server speaks the wire format for a bag of words, and misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.endpoint import EndpointError, Limits, RequestCap, checked_endpoint, parse_reply, retry_after
from slalom_bench.backends.openai_backend import (
    LabelMissing,
    OpenAIBackend,
    label_log_probabilities,
    label_words,
    messages,
)
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import Classifier

KEY = "sk-test-0123456789-very-secret"
SERVED = bag_of_words({"good": 1.5, "bad": -2.0, "film": 0.25, ".": 0.1}, bias=0.3)
TEXT = "A good film . Not bad , good"


def log_odds(text: str) -> float:
    logits = SERVED.logits([SERVED.tokens.encode(text)[0]]) if text else np.array([[0.0, 0.3]])
    return float(logits[0, 1] - logits[0, 0])


class Server(ThreadingHTTPServer):
    """Answers with the bag of words; `faults` are played first, one a request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: deque[Any] = deque()
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.under_way = self.most = 0
        self.lock = threading.Lock()
        self.tokens = {"positive": ["positive", " Pos"], "negative": ["Negative"]}
        self.pause = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *arguments: Any) -> None:
        return

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append(body)
            server.keys.append(self.headers.get("Authorization"))
            server.under_way += 1
            server.most = max(server.most, server.under_way)
            fault = server.faults.popleft() if server.faults else None
        try:
            time.sleep(server.pause)
            if fault == "timeout":
                time.sleep(1.0)
            answer = fault if fault not in (None, "timeout") else (200, json.dumps(self.completion(body)).encode())
        finally:
            with server.lock:  # before the client hears of it, and asks for more
                server.under_way -= 1
        self.reply(*answer)

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):  # the client has timed out
            return

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        assert self.path == "/v1/chat/completions"
        assert body["logprobs"] is True
        assert body["max_tokens"] == 1
        text = body["messages"][-1]["content"].removeprefix("Text: ").removesuffix("\n\nClass:")
        odds = log_odds(text)
        top = []
        for sign, label in ((1, "positive"), (-1, "negative")):
            spellings = self.server.tokens[label]
            share = -np.logaddexp(0.0, -sign * odds) + np.log(0.9 / max(1, len(spellings)))
            top += [{"token": token, "logprob": float(share)} for token in spellings]
        top += [{"token": "The", "logprob": float(np.log(0.09))}, {"token": "", "logprob": float(np.log(0.001))}]
        top += [{"token": "?", "logprob": None}]
        first = {"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top[: body["top_logprobs"]]}
        return {"choices": [{"message": {"content": first["token"]}, "logprobs": {"content": [first]}}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = Server()
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


def connect(server: Server, folder: Path, **options: Any) -> tuple[OpenAIBackend, Classifier, Sample]:
    concurrency = options.pop("concurrency", 8)
    limits = Limits(**{"first_wait": 0.01, "timeout": 20.0, **options})
    backend = OpenAIBackend(
        "mini", ("negative", "positive"), base_url=server.url, cache=folder, concurrency=concurrency, limits=limits
    )
    classifier = Classifier(backend)
    return backend, classifier, classifier.encode(Example("a", TEXT))


def masks(count: int, n: int = 8) -> np.ndarray:
    """Different masks that keep at least one token."""
    return (np.arange(1, count + 1)[:, None] >> np.arange(n)[None, :] & 1).astype(bool)


def expected(sample: Sample, classifier: Classifier, keep: np.ndarray) -> list[float]:
    words = np.array(classifier.tokens.words(sample.ids))
    return [log_odds(" ".join(words[row])) for row in keep]


def assert_no_key(folder: Path, *texts: str) -> None:
    for path in folder.rglob("*"):
        assert KEY not in str(path)
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    assert not any(KEY in text for text in texts)


def test_log_odds_are_the_served_models_and_a_rerun_is_free(server: Server, tmp_path: Path) -> None:
    backend, classifier, sample = connect(server, tmp_path)
    keep = masks(60)
    truth = expected(sample, classifier, keep)
    assert np.ptp(truth) > 2
    assert classifier.masked_log_odds(sample, keep) == pytest.approx(truth, abs=1e-6)
    assert backend.report() == {"answers": 60, "floored": 0, "requests": 60, "max_requests": 10_000}
    assert set(server.keys) == {f"Bearer {KEY}"}
    again, second, _ = connect(server, tmp_path, max_requests=0)
    assert second.masked_log_odds(sample, keep) == pytest.approx(truth, abs=1e-6)
    assert again.report()["requests"] == 0
    assert len(server.requests) == 60
    assert_no_key(tmp_path, repr(vars(backend)), repr(vars(backend.endpoint)), backend.identity())
    assert len(list(tmp_path.rglob("*.json"))) == len([p for p in tmp_path.rglob("*") if p.is_file()]) == 60


def test_failures_that_pass_are_retried(server: Server, tmp_path: Path) -> None:
    date = formatdate(time.time() + 0.5, usegmt=True)
    server.faults.extend(
        [
            (429, b"slow down", {"Retry-After": "0.3"}),
            (500, b"oops"),
            (503, b"", {"Retry-After": date}),
            (200, b"{cut"),
            (502, b"<html>"),
            "timeout",
            (429, f"key {KEY} is limited".encode()),
            (408, b""),
        ]
    )
    backend, classifier, sample = connect(server, tmp_path, attempts=9, concurrency=4, timeout=0.5)
    start = time.perf_counter()
    assert classifier.masked_log_odds(sample, masks(20)) == pytest.approx(
        expected(sample, classifier, masks(20)), abs=1e-6
    )
    assert time.perf_counter() - start > 0.3  # Retry-After outlasts the back-off of 0.01 s
    assert backend.report()["requests"] == len(server.requests) >= 28
    assert_no_key(tmp_path)


def test_giving_up_names_the_last_failure_but_never_the_key(server: Server, tmp_path: Path) -> None:
    server.faults.extend([(500, f"your key {KEY} made me fail".encode())] * 3)
    backend, classifier, sample = connect(server, tmp_path, attempts=3, concurrency=1)
    with pytest.raises(EndpointError, match=r"gave up after 3 attempts.*HTTP 500.*\*\*\*") as caught:
        classifier.log_odds([sample.ids])
    assert backend.report()["requests"] == 3
    assert_no_key(tmp_path, str(caught.value), repr(caught.value.__cause__))
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ((401, f"Incorrect API key provided: {KEY}".encode()), r"HTTP 401.*\*\*\*.*OPENAI_API_KEY"),
        ((404, b"no such model"), "HTTP 404: no such model"),
        ((307, b"", {"Location": "http://127.0.0.1:9/elsewhere"}), "HTTP 307"),
        ((200, b'{"choices": [{"message": {"content": "positive"}}]}'), "no choices.*log-probabilities"),
        ((200, b'{"choices": []}'), "no choices"),
        ((200, b"[]"), "no choices"),
        ((200, b'{"choices":[{"logprobs":{"content":[{"top_logprobs":[]}]}}]}'), "no usable log-probabilities"),
        (
            (200, b'{"choices":[{"logprobs":{"content":[{"top_logprobs":[{"token":"positive","logprob":0.9}]}]}}]}'),
            "no usable log-probabilities",
        ),
    ],
)
def test_what_another_attempt_would_not_mend_fails_at_once(
    server: Server, tmp_path: Path, fault: Any, message: str
) -> None:
    server.faults.append(fault)
    _, classifier, sample = connect(server, tmp_path)
    with pytest.raises(EndpointError, match=message) as caught:
        classifier.log_odds([sample.ids])
    assert len(server.requests) == 1
    assert_no_key(tmp_path, str(caught.value))


def test_the_cap_stops_before_sending_and_loses_nothing(server: Server, tmp_path: Path) -> None:
    backend, classifier, sample = connect(server, tmp_path, max_requests=25)
    classifier.masked_log_odds(sample, masks(20))
    with pytest.raises(RequestCap, match=r"20 more requests after 20 would exceed the cap of 25.*--max-requests"):
        classifier.masked_log_odds(sample, masks(40))
    assert len(server.requests) == backend.report()["requests"] == 20
    _, second, _ = connect(server, tmp_path, max_requests=20)
    assert second.masked_log_odds(sample, masks(40)) == pytest.approx(expected(sample, second, masks(40)), abs=1e-6)
    assert len(server.requests) == 40


def test_retries_count_towards_the_cap(server: Server, tmp_path: Path) -> None:
    server.faults.extend([(500, b"")] * 10)
    _, classifier, sample = connect(server, tmp_path, max_requests=4, attempts=9)
    with pytest.raises(RequestCap):
        classifier.log_odds([sample.ids])
    assert len(server.requests) == 4


def test_concurrency_is_used_and_limited(server: Server, tmp_path: Path) -> None:
    server.pause = 0.02
    _, classifier, sample = connect(server, tmp_path, concurrency=3)
    classifier.masked_log_odds(sample, masks(30))
    assert 1 < server.most <= 3


def test_a_missing_label_word_is_floored_and_reported(server: Server, tmp_path: Path) -> None:
    server.tokens["negative"] = []
    backend, classifier, sample = connect(server, tmp_path)
    with pytest.warns(LabelMissing, match="'negative' is not among the 20 listed tokens"):
        found = classifier.masked_log_odds(sample, masks(3))
    truth = expected(sample, classifier, masks(3))
    assert backend.report()["floored"] == 3
    assert found == pytest.approx([-np.logaddexp(0, -f) + np.log(0.9) - np.log(0.001) for f in truth], abs=1e-6)


def test_an_answer_without_any_label_word_is_the_texts_fault(server: Server, tmp_path: Path) -> None:
    server.tokens = {"positive": ["Sure"], "negative": ["Well"]}
    _, classifier, sample = connect(server, tmp_path)
    with pytest.raises(InvalidInput, match="none of the label words negative, positive, but with 'Sure', 'Well'"):
        classifier.log_odds([sample.ids])


def test_damaged_cache_files_are_asked_for_again(server: Server, tmp_path: Path) -> None:
    _, classifier, sample = connect(server, tmp_path)
    classifier.log_odds([sample.ids])
    (path,) = tmp_path.rglob("*.json")
    for damage in ("", "{", '{"top": [["positive"]]}', "[]"):
        path.write_text(damage)
        assert connect(server, tmp_path)[1].log_odds([sample.ids]) == pytest.approx([log_odds(TEXT)], abs=1e-6)
    assert len(server.requests) == 5


def test_no_key_no_header_and_a_key_no_header_can_carry(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    _, classifier, sample = connect(server, tmp_path)
    classifier.log_odds([sample.ids])
    assert server.keys == [None]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one\nsk-two")
    with pytest.raises(InvalidInput, match="no header can carry") as caught:
        classifier.log_odds([sample.ids[:1]])
    assert "sk-" not in str(caught.value)


def test_a_server_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    gone = Server()
    url = gone.url
    gone.server_close()
    limits = Limits(attempts=2, first_wait=0.01)
    backend = OpenAIBackend("m", ("negative", "positive"), base_url=url, cache=tmp_path, limits=limits)
    with pytest.raises(EndpointError, match=r"gave up after 2 attempts.*refused"):
        backend.log_probabilities(["x"])


def test_black_box_capabilities_words_and_estimate(server: Server, tmp_path: Path) -> None:
    backend, classifier, sample = connect(server, tmp_path)
    assert classifier.tokens.decode(sample.ids) == TEXT
    assert classifier.tokens.words(classifier.encode(Example("b", "It's bad, bad!")).ids) == [
        "It's",
        "bad",
        ",",
        "bad",
        "!",
    ]
    assert classifier.capabilities == {"queries"}
    with pytest.raises(Unsupported, match="gradients"):
        classifier.embed(sample)
    with pytest.raises(Unsupported, match="attentions"):
        classifier.attentions(sample)
    plan = backend.estimate(1000, [sample.ids])
    prompt = sum(len(message["content"]) for message in backend.payload(TEXT)["messages"])
    assert plan == {
        "requests": 1000,
        "prompt_tokens": 250 * prompt,
        "completion_tokens": 1000,
        "max_requests": 10_000,
    }
    assert not server.requests


def test_identity_names_endpoint_model_and_labels(tmp_path: Path) -> None:
    def identity(model: str = "m", names: tuple[str, ...] = ("no", "yes"), url: str = "http://h/v1") -> str:
        return OpenAIBackend(model, names, base_url=url, cache=tmp_path).identity()

    assert identity() == identity(url="http://h/v1/")
    assert len({identity(), identity("n"), identity(names=("yes", "no")), identity(url="http://i/v1")}) == 4


def test_a_run_stops_at_the_cap_and_a_rerun_finishes_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No sample becomes a failure because requests ran out, and gradient explainers are skipped with a reason."""
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.running.runner import run_suite
    from slalom_bench.running.suite import make_suite

    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path / "cache"))
    suite = make_suite(
        name="t",
        tasks=("synthetic-linear",),
        models=("openai:mini,concurrency=2",),
        budgets=(60,),
        samples=3,
        explainers=("leave-one-out", "grad-l2"),
        metrics=("deletion",),
    )
    options = ModelOptions(base_url=server.url, max_requests=40)
    with pytest.raises(RequestCap, match="exceed the cap of 40"):
        run_suite(suite, tmp_path / "run", options)
    assert 0 < len(server.requests) <= 40
    assert "openai:mini: at most 40 requests (--max-requests), about " in capsys.readouterr().err
    result = run_suite(suite, tmp_path / "run", replace(options, max_requests=1000))
    assert (result.failed, len(result.plan.cells)) == (0, 1)
    assert any("grad-l2" in skip.what and "gradients" in skip.reason for skip in result.plan.skips)
    asked = len(server.requests)
    assert len({request["messages"][-1]["content"] for request in server.requests}) == asked
    assert_no_key(tmp_path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (None, "--base-url"),
        ("ftp://host/v1", "scheme 'ftp'"),
        ("host/v1", "expected http"),
        (f"http://user:{KEY}@host/v1", "no credentials"),
        (f"http://host/v1?key={KEY}", "no credentials"),
    ],
)
def test_addresses_that_are_refused(url: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        checked_endpoint(url)
    assert KEY not in str(caught.value)


def test_label_words_and_prompt() -> None:
    assert label_words(("negative", " positive")) == ("negative", "positive")
    assert label_words(("class0", "class1")) == ("A", "B")
    with pytest.raises(InvalidInput, match="27 classes"):
        label_words(["x"] * 27)
    system, user = messages("a b", ("class0", "class1"), ("A", "B"))
    assert "A (class0), B (class1)" in system["content"]
    assert user["content"] == "Text: a b\n\nClass:"


def test_tokens_of_one_label_add_up_and_the_floor_is_the_smallest_listed() -> None:
    top = [("positive", np.log(0.4)), (" Pos", np.log(0.2)), ("x", np.log(0.1)), ("POSITIVE\n", np.log(0.1))]
    values, missing = label_log_probabilities(top, ("negative", "positive"))
    assert missing == ["negative"]
    assert np.exp(values) == pytest.approx([0.1, 0.7])


def test_retry_after_in_seconds_or_as_a_date() -> None:
    assert retry_after("2.5") == 2.5
    assert retry_after("-3") == 0.0
    assert retry_after(None) is retry_after("soon") is None
    wait = retry_after(formatdate(time.time() + 100, usegmt=True))
    assert wait is not None
    assert 90 < wait <= 100


def test_infinite_log_probabilities_count_as_not_listed() -> None:
    items = '[{"token":"a","logprob":-0.5},{"token":"b","logprob":-Infinity},{"token":"c","logprob":NaN}]'
    body = f'{{"choices":[{{"logprobs":{{"content":[{{"top_logprobs":{items}}}]}}}}]}}'
    assert parse_reply(body) == [("a", -0.5)]
