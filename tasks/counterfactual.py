"""Counterfactual IMDB (Kaushik, Hovy and Lipton 2020): reviews that people edited until the class was the other one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.sources import Absent, Source, SourceRows, file_names, first_present, hub_source, table_files
from slalom_bench.data.splits import content_hash, distinct, text_hash
from slalom_bench.data.tables import Row, parse_label, read_rows
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

CLASSES = ("negative", "positive")
COLUMNS = ("Sentiment", "Text", "batch_id")
_TEXTS = ("revised", "both")


@dataclass(frozen=True)
class _Pair:
    """A review and its edit, each with its class."""

    original: tuple[str, int]
    revised: tuple[str, int]


@task(
    "imdb-counterfactual",
    version=1,
    source="counterfactually augmented IMDB: the authors' paired files in a directory (imdb_counterfactual/*.tsv), or "
    "a hub dataset with the same columns",
    licence="Apache-2.0 (the edits); reviews for research use; cite Kaushik et al. 2020 and Maas et al. 2011",
    citation="Kaushik, Hovy and Lipton 2020, Learning the Difference that Makes a Difference with "
    "Counterfactually-Augmented Data, ICLR",
    class_names=CLASSES,
    trained_on="imdb",
    revision="the authors' paired files of 2020",
)
class ImdbCounterfactual:
    """Reviews that people edited until they said the opposite: the words they changed are the truth.

    Gives labels, the other text of each pair and training texts (both texts of the training pairs); models are those
    of `imdb`. The originals stand in IMDB's training split, so that a model trained on it has seen them: only revised
    texts are explained and scored, and an original is no more than what its revision is compared with. For a model
    that has not learnt from IMDB, `texts=both` explains both sides. Dropped are pairs whose texts do not differ in any
    word, texts that come twice, and training texts that are also evaluation texts. The best known copy on the hub
    (tasksource/counterfactually-augmented-imdb) does not say which texts are a pair, so that none is looked for there
    unless `hub` names one that does.

    Choose it:
        For a truth that no annotator was asked to point at: people changed what they had to, and the class turned.

    Example:
        "A great film" (positive), revised to "A dull film" (negative): the revision is explained, its word 2 of 3 is
        the edit. A method that puts "dull" first of three finds it at once; towards positive its score should be
        negative, for with "great" in its place the log-odds rise.

    Args:
        texts: `revised`, or `both`: for models that were not trained on IMDB only.
        hub: a dataset of the hub with the authors' columns Sentiment, Text and batch_id, and splits test and train.

    Reference:
        Kaushik, Hovy and Lipton 2020, Learning the Difference that Makes a Difference with Counterfactually-Augmented
        Data, ICLR.
    """

    remedies = (
        "download the authors' train_paired.tsv and test_paired.tsv (sentiment/combined/paired of "
        "counterfactually-augmented-data) into DIR/imdb_counterfactual and give --data-dir DIR or set "
        "SLALOM_BENCH_DATA=DIR",
        "name a dataset of the hub with the same columns: --task imdb-counterfactual:hub=OWNER/NAME",
    )

    def __init__(self, texts: str = "revised", hub: str | None = None) -> None:
        self.texts = texts
        self.hub = hub

    def sources(self, data_dir: Path | None) -> list[Source]:
        """The dataset of the hub that was named, else the directory."""
        if self.hub is not None:
            return [hub_source(self.hub, ("test", "train"))]
        name = "imdb_counterfactual"
        return [Source("directory", name, lambda: _files(data_dir)[0], lambda: _read(data_dir))]

    def load(self, data_dir: Path | None) -> TaskData:
        """The test pairs for evaluation, the training pairs for training."""
        if self.texts not in _TEXTS:
            raise InvalidInput(f"imdb-counterfactual: texts must be one of {', '.join(_TEXTS)}, not {self.texts!r}")
        kind, rows = first_present("imdb-counterfactual", self.sources(data_dir), self.remedies)
        splits = {split: _located(found, split) for split, found in rows.splits.items()}
        pairs = _pairs(splits["test"])
        differing = [pair for pair in pairs if pair.original[0].split() != pair.revised[0].split()]
        evaluation = _examples(differing, both=self.texts == "both")
        training = _training(_pairs(splits.get("train", [])), pairs)
        sides = len(differing) * (2 if self.texts == "both" else 1)
        note = (
            f"{len(pairs)} pairs; {'both texts' if self.texts == 'both' else 'only the revised texts'} are explained: "
            "the originals stand in IMDB's training split, on which its models are trained; dropped: "
            f"{len(pairs) - len(differing)} pairs without a difference, {sides - len(evaluation)} repeated texts"
        )
        source = DataSource(kind, rows.name, content_hash(evaluation, training), note)
        return TaskData("imdb-counterfactual", source, CLASSES, evaluation, training)


def _files(data_dir: Path | None) -> tuple[str, dict[str, list[Path]]]:
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    files = table_files(data_dir / "imdb_counterfactual", ("test_paired", "train_paired"))
    if not files:
        raise Absent("the data directory has no imdb_counterfactual/test_paired.tsv")
    return file_names("imdb_counterfactual", files), {stem.removesuffix("_paired"): f for stem, f in files.items()}


def _read(data_dir: Path | None) -> SourceRows:
    """The rows of each file, each with the place it stands at."""
    name, files = _files(data_dir)
    return SourceRows(
        name,
        {
            split: [
                {**row, "where": f"{path.name}: row {n}"}
                for path in paths
                for n, row in enumerate(read_rows(path, COLUMNS), 1)
            ]
            for split, paths in files.items()
        },
    )


def _located(rows: list[Row], split: str) -> list[Row]:
    """Rows with the place each stands at; a copy without the authors' columns is refused."""
    if rows and (missing := [name for name in COLUMNS if name not in rows[0]]):
        raise InvalidInput(
            f"imdb-counterfactual {split} has no column {', '.join(missing)} (it has {', '.join(rows[0])}): texts can "
            "only be paired by batch_id"
        )
    return [{"where": f"{split}: row {n}", **row} for n, row in enumerate(rows, 1)]


def _pairs(rows: Iterable[Row]) -> list[_Pair]:
    """Rows of one `batch_id`, two and of different classes: the original first, as the authors' files have them."""
    batches: dict[str, list[tuple[str, int]]] = {}
    for row in rows:
        text = row["Text"]
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"{row['where']} has an empty text; remove its pair")
        label = parse_label(str(row["Sentiment"]).lower(), CLASSES, row["where"])
        batches.setdefault(str(row["batch_id"]), []).append((text, label))
    for batch, texts in batches.items():
        if len(texts) != 2 or texts[0][1] == texts[1][1]:
            classes = ", ".join(CLASSES[label] for _, label in texts)
            raise InvalidInput(
                f"imdb-counterfactual: batch_id {batch!r} has {len(texts)} texts ({classes}); a pair is one negative "
                "and one positive text, the original first: remove or complete it"
            )
    return [_Pair(*texts) for texts in batches.values()]


def _examples(pairs: Iterable[_Pair], *, both: bool) -> tuple[Example, ...]:
    """The revised texts (or both of each pair) with the other text beside them, in hash order, each once."""
    sides = [(pair.revised, pair.original) for pair in pairs]
    sides += [(pair.original, pair.revised) for pair in pairs] if both else []
    hashed = {text_hash(text): (text, label, other) for (text, label), (other, _) in reversed(sides)}
    return tuple(
        Example(digest[:16], text, label, counterpart=other) for digest, (text, label, other) in sorted(hashed.items())
    )


def _training(pairs: Iterable[_Pair], evaluated: Iterable[_Pair]) -> tuple[Example, ...]:
    """Both texts of the training pairs, but those of the evaluation pairs."""
    held = {text_hash(text) for pair in evaluated for text, _ in (pair.original, pair.revised)}
    examples = distinct(text for pair in pairs for text in (pair.original, pair.revised))
    return tuple(example for digest, example in examples.items() if digest not in held)
