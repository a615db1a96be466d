"""Yelp reviews: polarity (the training data) and Yelp-HAT, reviews with human attention maps (Sen et al. 2020)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.sources import Absent, Source, SourceRows, file_names, first_present, hub_source, table_files
from slalom_bench.data.splits import content_hash, distinct, labelled, split_texts, text_hash
from slalom_bench.data.tables import Row, parse_label, read_rows
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

CLASSES = ("negative", "positive")
HUB = "fancyzhx/yelp_polarity"
_SUBSETS = ("50", "100", "200", "mixed", "all")
_CONSENSUS = ("and", "majority")
COLUMNS = ("Input.label", "Input.text", "Answer.Q1Answer", "Answer.html_output")
_ANSWERS = {"yes": 1, "no": 0}


@task(
    "yelp",
    version=1,
    source="Yelp review polarity: a directory or the hub (fancyzhx/yelp_polarity)",
    licence="Yelp dataset terms, research use",
    citation="Zhang, Zhao and LeCun 2015, Character-level Convolutional Networks for Text Classification, NeurIPS",
    class_names=CLASSES,
    revision="as found; the content hash identifies it",
)
class Yelp:
    """Yelp reviews of 1-2 stars (negative) or 4-5 stars (positive); what Yelp-HAT models are trained on.

    Gives labels and training texts.

    Choose it:
        To train models for `yelp-hat`, or to see whether findings of `imdb` hold for reviews of places.

    Example:
        One or two stars are class 0 (negative), four or five class 1 (positive); a review of three is in neither.

    Args:
        split: as in imdb: `official`, `hash`, or `auto` (official where there is a test split, else by a hash of the
            text).

    Reference:
        Zhang, Zhao and LeCun 2015, Character-level Convolutional Networks for Text Classification, NeurIPS.
    """

    remedies = (
        "point --data-dir or SLALOM_BENCH_DATA at a folder with yelp/yelp_polarity, or yelp/train and yelp/test "
        "(.parquet, .csv, .jsonl; columns text, label)",
        "connect to the hub, with HF_HUB_OFFLINE and HF_DATASETS_OFFLINE unset",
    )

    def __init__(self, split: str = "auto") -> None:
        self.split = split

    def sources(self, data_dir: Path | None) -> list[Source]:
        """Where the reviews may be, in the order in which they are looked for."""
        directory = Source("directory", "yelp", lambda: _yelp_files(data_dir)[0], lambda: _read_yelp(data_dir))
        return [directory, hub_source(HUB, ("train", "test"))]

    def load(self, data_dir: Path | None) -> TaskData:
        """The reviews from the first source that has them."""
        kind, rows = first_present("yelp", self.sources(data_dir), self.remedies)
        evaluation, training, note = split_texts("yelp", rows.splits, CLASSES, self.split)
        source = DataSource(kind, rows.name, content_hash(evaluation, training), note)
        return TaskData("yelp", source, CLASSES, evaluation, training)


def _yelp_files(data_dir: Path | None) -> tuple[str, dict[str, list[Path]]]:
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    for stems in (("train", "test"), ("yelp_polarity",)):
        if files := table_files(data_dir / "yelp", stems):
            return file_names("yelp", files), {stem.replace("yelp_polarity", "train"): f for stem, f in files.items()}
    raise Absent("the data directory has neither yelp/yelp_polarity nor yelp/train (.parquet, .csv, .jsonl)")


def _read_yelp(data_dir: Path | None) -> SourceRows:
    """The reviews without those marked `in_hat`: what Yelp-HAT evaluates is never trained on."""
    name, files = _yelp_files(data_dir)
    splits = {}
    for split, paths in files.items():
        rows = [row for path in paths for row in read_rows(path, ("text", "label"), optional=("in_hat",))]
        splits[split] = [row for row in rows if str(row.get("in_hat", "")).lower() not in ("true", "1")]
    return SourceRows(name, splits)


class _Spans(HTMLParser):
    """The words of an annotation and whether each was highlighted: one span a word, class active where marked."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.spans: list[tuple[str, bool]] = []
        self._inside = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A span begins a word."""
        if tag == "span":
            active = any(name == "class" and "active" in (value or "").split() for name, value in attrs)
            self.spans.append(("", active))
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        """The end of a span ends it."""
        self._inside = self._inside and tag != "span"

    def handle_data(self, data: str) -> None:
        """Text inside a span belongs to its word."""
        if self._inside:
            word, active = self.spans[-1]
            self.spans[-1] = (word + data, active)


def parse_spans(html: str) -> tuple[list[str], tuple[bool, ...]]:
    """Words and marks of an `Answer.html_output`; the empty span at the end is no word.

    >>> parse_spans('<span class="active">great</span><span>fun</span><span></span>')
    (['great', 'fun'], (True, False))
    """
    spans = [(word.strip(), active) for word, active in _Spans(html).spans if word.strip()]
    return [word for word, _ in spans], tuple(active for _, active in spans)


@dataclass
class _Review:
    """A review's label and the maps of the annotators who agree with its label."""

    label: int
    maps: list[tuple[bool, ...]]

    def consensus(self, rule: str) -> tuple[bool, ...]:
        """A word is marked if all annotators marked it (and), or more than half of them (majority)."""
        votes = [sum(marks) for marks in zip(*self.maps, strict=True)]
        return tuple(2 * n > len(self.maps) if rule == "majority" else n == len(self.maps) for n in votes)

    def shares(self) -> tuple[float, ...] | None:
        """The share of annotators who marked each word, where there are several."""
        if len(self.maps) < 2:
            return None
        return tuple(sum(marks) / len(self.maps) for marks in zip(*self.maps, strict=True))


@task(
    "yelp-hat",
    version=1,
    training={"layers": 6},
    source="Yelp-HAT: the authors' public CSV files in a directory (yelp_hat/*.csv)",
    licence="review texts under the Yelp dataset terms, research use; cite Sen et al. 2020",
    citation="Sen et al. 2020, Human Attention Maps for Text Classification, ACL",
    class_names=CLASSES,
    revision="the authors' CSV files of 2020",
)
class YelpHat:
    """Yelp reviews with the words that human annotators found decisive; training reviews are those of `yelp`.

    Gives labels, human marks (only annotators whose answer equals the review's label count), the share of annotators
    behind each mark where there are several, and training texts where the data directory has `yelp` too. Words are
    whitespace-split. Subsets have tables of their own, for people mark other shares of longer texts.

    Choose it:
        To compare with the words that several people marked.

    Example:
        Three annotators mark the words of "so good here" 1 1 0, 1 0 0 and 1 1 0: all agree on the first word alone
        (`and`: 1 0 0), more than half on two (`majority`: 1 1 0); the shares are 1, 0.67 and 0.

    Args:
        subset: `50`, `100`, `200` (words, from the file name), `mixed` or `all`.
        consensus: a word is marked if all annotators marked it (`and`), or more than half of them (`majority`).

    Reference:
        Sen et al. 2020, Human Attention Maps for Text Classification: Do Humans and Neural Networks Focus on the Same
        Words?, ACL.
    """

    remedies = (
        "download the authors' CSV files (ham_part*.csv of Human-Attention-for-Text-Classification) into DIR/yelp_hat "
        "and give --data-dir DIR or set SLALOM_BENCH_DATA=DIR",
    )

    def __init__(self, subset: str = "all", consensus: str = "and") -> None:
        self.subset = subset
        self.consensus = consensus

    def sources(self, data_dir: Path | None) -> list[Source]:
        """The directory is the only place: the CSV files are on no hub and in no package."""
        folder = Source("directory", "yelp_hat", lambda: _hat_name(self._files(data_dir)), lambda: self._read(data_dir))
        return [folder]

    def load(self, data_dir: Path | None) -> TaskData:
        """The annotated reviews, and the reviews of `yelp` beside them that are not among these."""
        self._check()
        kind, loaded = first_present("yelp-hat", self.sources(data_dir), self.remedies)
        reviews, note = _reviews(row for rows in loaded.splits.values() for row in rows)
        hashed = sorted((text_hash(text), text) for text in reviews)
        evaluation = tuple(
            Example(
                digest[:16], text, reviews[text].label, reviews[text].consensus(self.consensus), reviews[text].shares()
            )
            for digest, text in hashed
            if reviews[text].maps
        )
        if not evaluation:
            raise InvalidInput(f"yelp-hat: no review of {loaded.name} has an annotator who agrees with its label")
        training, words = _training(data_dir, {digest for digest, _ in hashed})
        source = DataSource(kind, loaded.name, content_hash(evaluation, training), f"{note}; {words}")
        return TaskData("yelp-hat", source, CLASSES, evaluation, training)

    def _check(self) -> None:
        for name, value, allowed in (("subset", self.subset, _SUBSETS), ("consensus", self.consensus, _CONSENSUS)):
            if str(value) not in allowed:
                raise InvalidInput(f"yelp-hat: {name} must be one of {', '.join(allowed)}, not {value!r}")

    def _files(self, data_dir: Path | None) -> list[Path]:
        if data_dir is None:
            raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
        every = sorted(path for folder in ("yelp_hat", "yelp-hat") for path in (data_dir / folder).glob("*.csv"))
        if not every:
            raise Absent("the data directory has no yelp_hat/*.csv")
        chosen = [path for path in every if str(self.subset) in ("all", subset_of(path.name))]
        if not chosen:
            there = ", ".join(sorted({subset_of(path.name) for path in every}))
            raise Absent(f"yelp_hat has no file of the subset {self.subset}; it has: {there}")
        return chosen

    def _read(self, data_dir: Path | None) -> SourceRows:
        files = self._files(data_dir)
        return SourceRows(
            _hat_name(files),
            {
                path.name: [
                    {**row, "where": f"{path.name}: row {n}"} for n, row in enumerate(read_rows(path, COLUMNS), 1)
                ]
                for path in files
            },
        )


def subset_of(file_name: str) -> str:
    """The subset a HAT file belongs to, by the word count in its name.

    >>> subset_of("ham_part1(50words).csv"), subset_of("ham_part7.csv")
    ('50', 'mixed')
    """
    match = re.search(r"(\d+)\s*words", file_name)
    return match.group(1) if match else "mixed"


def _hat_name(files: Iterable[Path]) -> str:
    return file_names("yelp_hat", {"": list(files)})


def _reviews(rows: Iterable[Row]) -> tuple[dict[str, _Review], str]:
    """Reviews by their text with the maps of their agreeing annotators, and a note that counts what was left out."""
    reviews: dict[str, _Review] = {}
    total = 0
    disagreeing = 0
    mismatches: list[str] = []
    for row in rows:
        total += 1
        text, label = str(row["Input.text"]), parse_label(row["Input.label"], CLASSES, row["where"])
        words, marks = parse_spans(str(row["Answer.html_output"]))
        if words != text.split() or not words:
            mismatches.append(f"{row['where']}: {_difference(words, text.split())}")
            continue
        review = reviews.setdefault(" ".join(words), _Review(label, []))
        if review.label != label:
            raise InvalidInput(f"{row['where']}: label {label} of a review that has label {review.label} elsewhere")
        if _ANSWERS.get(str(row["Answer.Q1Answer"]).strip().lower()) == label:
            review.maps.append(marks)
        else:
            disagreeing += 1
    if len(mismatches) == total:
        raise InvalidInput(f"yelp-hat: in all {total} rows the spans do not match the words. {mismatches[0]}")
    without = sum(not review.maps for review in reviews.values())
    return reviews, (
        f"{total} annotations of {len(reviews)} reviews; {disagreeing} annotations whose answer is not the label, "
        f"{without} reviews left without any; {len(mismatches)} rows whose spans do not match the words"
        + (f" (first: {mismatches[0]})" if mismatches else "")
    )


def _difference(spans: list[str], words: list[str]) -> str:
    """Where spans and words part, for an error that can be acted on."""
    at = next((i for i, (a, b) in enumerate(zip(spans, words, strict=False)) if a != b), min(len(spans), len(words)))
    shown = f"{spans[at : at + 3]} against {words[at : at + 3]}"
    return f"{len(spans)} spans for {len(words)} words; at word {at + 1}: {shown}"


def _training(data_dir: Path | None, hat: set[str]) -> tuple[tuple[Example, ...], str]:
    """All Yelp reviews of the same directory but those of HAT; never the hub, whose state would change the hash."""
    try:
        loaded = _read_yelp(data_dir)
    except Absent:
        return (), "no training reviews: put yelp/yelp_polarity.parquet into the data directory"
    pairs = [pair for split, rows in loaded.splits.items() for pair in labelled(rows, CLASSES, f"yelp {split}")]
    training = tuple(example for digest, example in distinct(pairs).items() if digest not in hat)
    return training, f"{len(training)} training reviews from {loaded.name}"
