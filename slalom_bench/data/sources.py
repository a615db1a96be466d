"""Where a task's data may be: a directory, the hub, an installed data package; the first that is there is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slalom_bench.data.tables import SUFFIXES, Row
from slalom_bench.errors import InvalidInput, SlalomBenchError

OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
_PROBE_SECONDS = 4.0


class Absent(SlalomBenchError):
    """A source that is not there; the message says why. Finding goes on to the next one."""


@dataclass(frozen=True)
class SourceRows:
    """What was read from a source: rows by split name, and the source's short name (no machine paths)."""

    name: str
    splits: Mapping[str, list[Row]]


@dataclass(frozen=True)
class Source:
    """One place a task's data may be; both functions raise Absent where it is not there.

    Args:
        kind: directory, hub or package.
        name: a short name without machine paths.
        check: says what is there, without reading it.
        read: reads it.
    """

    kind: str
    name: str
    check: Callable[[], str]
    read: Callable[[], SourceRows]


def first_present(task: str, sources: Sequence[Source], remedies: Sequence[str]) -> tuple[str, SourceRows]:
    """The kind and rows of the first source that can be read; else an error with every attempt.

    Args:
        task: the task's name, for the error.
        sources: in the order in which they are tried.
        remedies: what a user can do where none is there.
    """
    attempts = []
    for source in sources:
        try:
            source.check()
            return source.kind, source.read()
        except Absent as absent:
            attempts.append(f"  {source.kind} {source.name}: {absent}")
    raise InvalidInput(
        f"no data for task {task}. Tried:\n"
        + "\n".join(attempts)
        + "\nRemedies:\n"
        + "\n".join(f"  - {remedy}" for remedy in remedies)
    )


def hub_source(repository: str, splits: Sequence[str], revision: str | None = None) -> Source:
    """A dataset of the hub, read through `datasets`; an unreachable hub is noticed in seconds.

    Args:
        repository: the dataset's id.
        splits: which splits to read.
        revision: the commit to pin it to.
    """

    def check() -> str:
        """Whether a copy is cached or the hub answers."""
        offline = [name for name in OFFLINE_VARIABLES if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")]
        cached = _hub_cache(repository)
        if offline and not cached:
            raise Absent(f"not tried, {offline[0]} is set and there is no cached copy")
        if not offline and (problem := probe(repository)):
            hint = f"; a cached copy is there: set {OFFLINE_VARIABLES[0]}=1 to use it" if cached else ""
            raise Absent(f"{problem}{hint}")
        return "cached" if cached else "reachable, would be downloaded"

    def read() -> SourceRows:
        """The rows of all splits."""
        import datasets

        config = datasets.DownloadConfig(max_retries=1)
        try:
            loaded = datasets.load_dataset(repository, revision=revision, download_config=config)
            name = f"{repository}@{revision[:12]}" if revision else repository
            return SourceRows(name, {split: loaded[split].to_list() for split in splits})
        except Exception as error:
            raise Absent(f"`datasets` could not load it: {type(error).__name__}: {error}") from error

    return Source("hub", repository, check, read)


def probe(repository: str, seconds: float = _PROBE_SECONDS, kind: str = "datasets") -> str:
    """Empty if the hub answers for that dataset (or model), else why not. In a thread: name lookups know no timeout."""
    import urllib.error
    import urllib.request

    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    answer = [f"the hub did not answer within {seconds:g} seconds"]

    def ask() -> None:
        """Put the hub's answer, in words, into `answer`."""
        try:
            with urllib.request.urlopen(f"{endpoint}/api/{kind}/{repository}", timeout=seconds):
                answer[0] = ""
        except urllib.error.HTTPError as error:
            answer[0] = f"the hub answered {error.code}"
        except (OSError, ValueError) as error:
            answer[0] = f"the hub cannot be reached ({getattr(error, 'reason', error)})"

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds + 1)
    return answer[0]


def _hub_cache(repository: str) -> bool:
    """Whether `datasets` keeps a prepared copy of that dataset."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    cache = Path(os.environ.get("HF_DATASETS_CACHE", home / "datasets"))
    return (cache / repository.replace("/", "___")).is_dir()


def package_file(distribution: str, file_name: str) -> tuple[Path, str]:
    """A data file of an installed distribution and the distribution's version; its modules are never imported."""
    from importlib import metadata

    try:
        installed = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        raise Absent(f"the package {distribution} is not installed") from None
    for file in installed.files or ():
        if file.name == file_name:
            path = Path(str(installed.locate_file(file)))
            if path.is_file():
                return path, installed.version
    raise Absent(f"the package {distribution} {installed.version} has no file {file_name}")


def table_files(root: Path, stems: Sequence[str]) -> dict[str, list[Path]]:
    """The files of each split in a folder, of the first format that has the first of `stems` (shards included)."""
    for suffix in SUFFIXES:
        files = {stem: sorted({*root.glob(f"{stem}{suffix}"), *root.glob(f"{stem}-*{suffix}")}) for stem in stems}
        if files[stems[0]]:
            return {stem: paths for stem, paths in files.items() if paths}
    return {}


def file_names(folder: str, files: Mapping[str, Sequence[Path]]) -> str:
    """A short name of files without machine paths.

    >>> file_names("imdb", {"train": [Path("/data/imdb/train.csv")], "test": [Path("/data/imdb/test.csv")]})
    'imdb/train.csv + test.csv'
    """
    shown = " + ".join(path.name for paths in files.values() for path in paths)
    return f"{folder}/{shown}" if folder else shown
