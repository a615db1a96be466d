"""HateXplain (Mathew et al. 2021): posts of three classes with the words that annotators gave as their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_bench.core.json_text import parse_json
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.sources import Absent, Source, SourceRows, first_present, hub_source
from slalom_bench.data.splits import content_hash, text_hash
from slalom_bench.data.tables import Row, parse_label, read_text
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

CLASSES = ("hatespeech", "normal", "offensive")
HUB, _REVISION = "Hate-speech-CNERG/hatexplain", "refs/convert/parquet"
_FILES = ("dataset.json", "post_id_divisions.json")
_PARTS = {"annotators", "rationales", "post_tokens"}
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class _Post:
    """A post's words, its class, and of each word the share of annotators who gave it as a reason, if any did."""

    words: tuple[str, ...]
    label: int
    shares: tuple[float, ...] | None
    annotators: int

    def example(self, digest: str) -> Example:
        """With marks at the words that at least half of the annotators gave."""
        marks = None if self.shares is None else tuple(share >= 0.5 for share in self.shares)
        shares = self.shares if self.annotators > 1 else None
        return Example(digest[:16], " ".join(self.words), self.label, marks, shares)


@task(
    "hatexplain",
    version=1,
    source="HateXplain: the authors' dataset.json and post_id_divisions.json in a directory (hatexplain/), or the hub "
    "(Hate-speech-CNERG/hatexplain)",
    licence="CC BY 4.0, as the hub's card says; the texts are offensive; cite Mathew et al. 2021",
    citation="Mathew et al. 2021, HateXplain: A Benchmark Dataset for Explainable Hate Speech Detection, AAAI",
    class_names=CLASSES,
    training={"layers": 2},
    revision="the authors' files of 2020, hub as found; the content hash identifies it",
)
class HateXplain:
    """Posts of three classes (hate speech, normal, offensive) with the words that annotators found decisive.

    The posts are insulting: they are data about hate, and reports show them. Gives labels (the class that most of a
    post's annotators chose), human marks and the share of annotators behind each for posts that were not found normal
    (a word is marked where at least half of those who gave reasons gave it, as in the paper), and training texts
    (training and validation posts). Normal posts have no reasons, and no plausibility score. Dropped are posts on
    which no two annotators agree, posts that come twice, training posts that are also evaluation posts, and reasons
    that are not as long as their post. Written from the description of the data; not tried on the whole of it yet.

    Choose it:
        For three classes with the words that several annotators gave as reasons. For two classes take `yelp-hat`.

    Example:
        Three annotators say offensive, and give as their reasons the words 1 0 0, 1 1 0 and 0 0 0 of a post of three:
        the shares are 2/3, 1/3 and 0, and the first word is marked.

    Reference:
        Mathew, Saha, Yimam, Biemann, Goyal and Mukherjee 2021, HateXplain: A Benchmark Dataset for Explainable Hate
        Speech Detection, AAAI.
    """

    remedies = (
        "download the authors' dataset.json and post_id_divisions.json (Data of HateXplain) into DIR/hatexplain and "
        "give --data-dir DIR or set SLALOM_BENCH_DATA=DIR",
        "connect to the hub, with HF_HUB_OFFLINE and HF_DATASETS_OFFLINE unset",
    )

    def sources(self, data_dir: Path | None) -> list[Source]:
        """Where the posts may be, in the order in which they are looked for."""
        directory = Source("directory", "hatexplain", lambda: _folder(data_dir).name, lambda: _read(data_dir))
        return [directory, hub_source(HUB, tuple(_SPLITS.values()), _REVISION)]

    def load(self, data_dir: Path | None) -> TaskData:
        """The test posts with their marks, and the training and validation posts."""
        kind, rows = first_present("hatexplain", self.sources(data_dir), self.remedies)
        left_out: Counter[str] = Counter()
        test = _posts(rows.splits["test"], "test", left_out)
        others = _posts(rows.splits["train"], "train", left_out)
        others |= _posts(rows.splits.get("validation", []), "validation", left_out)
        evaluation = tuple(post.example(digest) for digest, post in sorted(test.items()))
        if not evaluation:
            raise InvalidInput(f"hatexplain: two annotators agree on no test post of {rows.name}")
        training = tuple(
            Example(digest[:16], " ".join(post.words), post.label)
            for digest, post in sorted(others.items())
            if digest not in test
        )
        note = (
            f"{len(evaluation)} test posts, {sum(e.word_marks is not None for e in evaluation)} of them with reasons; "
            f"dropped: {left_out['undecided']} on which no two annotators agree, {left_out['repeated']} repeated, "
            f"{len(others) - len(training)} training posts that are also test posts, {left_out['reasons']} reasons "
            "that are not as long as their post"
        )
        source = DataSource(kind, rows.name, content_hash(evaluation, training), note)
        return TaskData("hatexplain", source, CLASSES, evaluation, training)


def _folder(data_dir: Path | None) -> Path:
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    folder = data_dir / "hatexplain"
    if missing := [name for name in _FILES if not (folder / name).is_file()]:
        raise Absent(f"the data directory has no hatexplain/{missing[0]}")
    return folder


def _read(data_dir: Path | None) -> SourceRows:
    """The posts of each division of the authors' two files."""
    folder = _folder(data_dir)
    posts, divisions = (_object(folder / name) for name in _FILES)
    splits: dict[str, list[Row]] = {}
    for theirs, ours in _SPLITS.items():
        ids = divisions.get(theirs)
        if not isinstance(ids, list):
            raise InvalidInput(f"{_FILES[1]}: no list {theirs!r} of post ids")
        if unknown := [name for name in ids if not isinstance(name, str) or name not in posts]:
            raise InvalidInput(f"{_FILES[1]}: {theirs} names a post {str(unknown[0])[:60]!r} that {_FILES[0]} has not")
        splits[ours] = [posts[name] for name in ids]
    return SourceRows(f"hatexplain/{' + '.join(_FILES)}", splits)


def _object(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_text(path))
    except ValueError as error:
        raise InvalidInput(f"{path.name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{path.name}: a JSON {type(found).__name__}, not an object")
    return found


def _posts(rows: Iterable[Row], split: str, left_out: Counter[str]) -> dict[str, _Post]:
    """The posts of a split that two annotators agree on, by the hash of their text."""
    posts: dict[str, _Post] = {}
    for number, row in enumerate(rows, 1):
        post = _post(row, f"hatexplain {split}: row {number}", left_out)
        if post is None:
            left_out["undecided"] += 1
        elif (digest := text_hash(" ".join(post.words))) in posts:
            left_out["repeated"] += 1
        else:
            posts[digest] = post
    return posts


def _post(row: Row, where: str, left_out: Counter[str]) -> _Post | None:
    """One record; None where no two annotators agree."""
    if not isinstance(row, Mapping) or not row.keys() >= _PARTS:
        raise InvalidInput(f"{where} is no post: it needs {', '.join(sorted(_PARTS))}")
    tokens = [str(token).split() for token in row["post_tokens"]]
    words = tuple(word for token in tokens for word in token)
    if not words:
        raise InvalidInput(f"{where}: a post without words; remove it")
    label, votes = Counter(_labels(row["annotators"], where)).most_common(1)[0]
    if votes < 2:
        return None
    reasons = [reason for reason in row["rationales"] if len(reason) == len(tokens)]
    left_out["reasons"] += len(row["rationales"]) - len(reasons)
    if CLASSES[label] == "normal" or not any(any(reason) for reason in reasons):
        return _Post(words, label, None, len(reasons))
    shares = [sum(map(bool, given)) / len(reasons) for given in zip(*reasons, strict=True)]
    return _Post(words, label, tuple(s for s, token in zip(shares, tokens, strict=True) for _ in token), len(reasons))


def _labels(annotators: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]], where: str) -> list[int]:
    """The class that each annotator chose: a record each, or on the hub one record of lists."""
    said = annotators["label"] if isinstance(annotators, Mapping) else [each["label"] for each in annotators]
    return [parse_label(label, CLASSES, where) for label in said]
