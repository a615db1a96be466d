"""ERASER movie reviews (DeYoung et al. 2020): reviews with the passages that people gave as their reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.sources import Absent, Source, SourceRows, first_present, hub_source
from slalom_bench.data.splits import content_hash, distinct, text_hash
from slalom_bench.data.tables import Row, parse_label, read_rows, read_text
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

CLASSES = ("negative", "positive")
HUB, _REVISION = "eraser-benchmark/movie_rationales", "refs/convert/parquet"
_SHORT = {"neg": "negative", "pos": "positive"}
_FILES = {"train": "train.jsonl", "validation": "val.jsonl", "test": "test.jsonl"}
_COLUMNS = ("annotation_id", "classification", "evidences")


@task(
    "eraser-movies",
    version=1,
    source="ERASER movies: a directory (eraser_movies/*.jsonl, docs/) or the hub (eraser-benchmark/movie_rationales)",
    licence="research use; cite DeYoung et al. 2020, Zaidan et al. 2007 and Pang and Lee 2004",
    citation="DeYoung et al. 2020, ERASER: A Benchmark to Evaluate Rationalized NLP Models, ACL",
    class_names=CLASSES,
    trained_on="imdb",
    revision="ERASER's movies of 2020, hub as found; the content hash identifies it",
)
class EraserMovies:
    """Long film reviews with the passages that annotators gave as reasons for the class: 199 for evaluation.

    Gives labels, human marks (comprehensive: every passage that speaks for the class, about a third of the words) and
    training texts (without their marks, which are partial). Models are those of `imdb`. Words are whitespace-split, and
    a rationale is a span of word numbers; each sub-token has the mark of its word, by position. A review has some 780
    words: where it is cut, the marks behind the cut fall away with their words, and a run says how many did. The hub
    has the passages' words and not their places; a passage that stands in a review more than once is marked at each
    place. Dropped are reviews that come twice, training reviews that are also evaluation reviews, and evaluation
    reviews without any rationale.

    Choose it:
        To compare with passages that people give as reasons, in long texts. Where words and several annotators matter,
        take `yelp-hat`.

    Example:
        "the plot is thin but funny" with a rationale from word 2 to before word 4, "is thin": marks 0 0 1 1 0 0. Cut to
        three words one of the two marks is left, and the run says that one fell away.

    Reference:
        DeYoung et al. 2020, ERASER: A Benchmark to Evaluate Rationalized NLP Models, ACL; rationales by Zaidan, Eisner
        and Piatko 2007, Using "Annotator Rationales" to Improve Machine Learning for Text Categorization, NAACL;
        reviews by Pang and Lee 2004, A Sentimental Education, ACL.
    """

    remedies = (
        "unpack ERASER's movies (train.jsonl, val.jsonl, test.jsonl, docs/) into DIR/eraser_movies and give --data-dir "
        "DIR or set SLALOM_BENCH_DATA=DIR",
        "connect to the hub, with HF_HUB_OFFLINE and HF_DATASETS_OFFLINE unset",
    )

    def sources(self, data_dir: Path | None) -> list[Source]:
        """Where the reviews may be, in the order in which they are looked for."""
        directory = Source("directory", "eraser_movies", lambda: _folder(data_dir)[0], lambda: _read(data_dir))
        return [directory, hub_source(HUB, tuple(_FILES), _REVISION)]

    def load(self, data_dir: Path | None) -> TaskData:
        """The test reviews with their marks, and the training and validation reviews."""
        kind, rows = first_present("eraser-movies", self.sources(data_dir), self.remedies)
        reviews = [_review(row, f"eraser-movies test: row {n}") for n, row in enumerate(rows.splits["test"], 1)]
        marked = {text_hash(text): (text, label, marks) for text, label, marks in reviews if any(marks)}
        evaluation = tuple(Example(digest[:16], *review) for digest, review in sorted(marked.items()))
        if not evaluation:
            raise InvalidInput(f"eraser-movies: no test review of {rows.name} has a rationale")
        held = {text_hash(text) for text, _, _ in reviews}
        others = [
            (_words(row), _label(row, f"eraser-movies {split}: row {n}"))
            for split in ("train", "validation")
            for n, row in enumerate(rows.splits.get(split, []), 1)
        ]
        unique = distinct((" ".join(words), label) for words, label in others)
        training = tuple(example for digest, example in unique.items() if digest not in held)
        without = sum(not any(marks) for _, _, marks in reviews)
        note = (
            f"{len(evaluation)} test reviews; dropped: {len(reviews) - without - len(evaluation)} repeated, {without} "
            f"without a rationale, {len(others) - len(unique)} repeated training and validation reviews, "
            f"{len(unique) - len(training)} of them that are also test reviews"
        )
        source = DataSource(kind, rows.name, content_hash(evaluation, training), note)
        return TaskData("eraser-movies", source, CLASSES, evaluation, training)


def _folder(data_dir: Path | None) -> tuple[str, Path]:
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    for name in ("eraser_movies", "movies"):
        if (data_dir / name / "test.jsonl").is_file() and (data_dir / name / "docs").is_dir():
            return name, data_dir / name
    raise Absent("the data directory has no eraser_movies/test.jsonl with eraser_movies/docs")


def _read(data_dir: Path | None) -> SourceRows:
    """Every record with the words of its document; spans by word number stay what they are."""
    name, folder = _folder(data_dir)
    found = {split: folder / file for split, file in _FILES.items() if (folder / file).is_file()}
    splits = {split: [_record(folder, path, row) for row in read_rows(path, _COLUMNS)] for split, path in found.items()}
    return SourceRows(f"{name}/{' + '.join(path.name for path in found.values())}", splits)


def _record(folder: Path, path: Path, row: Row) -> Row:
    document = folder / "docs" / str(row["annotation_id"])
    if document.resolve().parent != (folder / "docs").resolve() or not document.is_file():
        raise InvalidInput(f"{path.name}: record {row['annotation_id']!r} has no document in docs/")
    return {"review": read_text(document), "label": row["classification"], "evidences": list(_spans(path, row))}


def _spans(path: Path, row: Row) -> Iterator[Mapping[str, Any]]:
    """The spans of a record, of all its groups; each must lie in the record's own document."""
    for group in row["evidences"]:
        for span in group:
            if not isinstance(span, Mapping) or not {"docid", "start_token", "end_token", "text"} <= span.keys():
                raise InvalidInput(f"{path.name}: record {row['annotation_id']}: {span!r} is no span of a document")
            if span["docid"] != row["annotation_id"]:
                raise InvalidInput(
                    f"{path.name}: record {row['annotation_id']}: a span of another document, {span['docid']!r}"
                )
            yield span


def _words(row: Row) -> list[str]:
    words = str(row["review"]).split()
    if not words:
        raise InvalidInput("eraser-movies: a review has no words; remove its record")
    return words


def _label(row: Row, where: str) -> int:
    said = str(row["label"]).strip()
    return parse_label(_SHORT.get(said.lower(), said), CLASSES, where)


def _review(row: Row, where: str) -> tuple[str, int, tuple[bool, ...]]:
    """Text, class and word marks of a record."""
    words = _words(row)
    marks = [False] * len(words)
    for evidence in row["evidences"]:
        for start, end in _places(words, evidence, where):
            marks[start:end] = [True] * (end - start)
    return " ".join(words), _label(row, where), tuple(marks)


def _places(words: Sequence[str], evidence: Mapping[str, Any] | str, where: str) -> Iterable[tuple[int, int]]:
    """Where a rationale stands: at its word numbers, whose words must be its own; else wherever its words stand."""
    if isinstance(evidence, str):
        passage = evidence.split()
        starts = [i for i in range(len(words) - len(passage) + 1) if words[i : i + len(passage)] == passage]
        if not starts or not passage:
            raise InvalidInput(f"{where}: the rationale {evidence[:60]!r} does not stand in its review")
        return [(start, start + len(passage)) for start in starts]
    start, end, text = evidence["start_token"], evidence["end_token"], str(evidence["text"])
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end <= len(words):
        raise InvalidInput(f"{where}: a span from word {start} to {end} of a review of {len(words)} words")
    if words[start:end] != text.split():
        raise InvalidInput(
            f"{where}: words {start} to {end} are {' '.join(words[start:end])[:60]!r}, the span says {text[:60]!r}"
        )
    return [(start, end)]
