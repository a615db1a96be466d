"""Stanford Sentiment Treebank (Socher et al. 2013): sentences of film reviews whose every phrase people have judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.sources import Absent, Source, SourceRows, file_names, first_present
from slalom_bench.data.splits import content_hash, distinct, text_hash
from slalom_bench.data.tables import as_integer, read_text
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

CLASSES = ("negative", "positive")
_FILES = {"train": "train.txt", "validation": "dev.txt", "test": "test.txt"}
_NEUTRAL = 2
_TRAINED_ON = ("phrases", "sentences")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")"}


@dataclass(frozen=True)
class Phrase:
    """A node of a tree: what people said of its words when they were shown them alone, 0 (very negative) to 4."""

    label: int
    words: tuple[str, ...]
    leaf: bool = False

    @property
    def side(self) -> int | None:
        """The class, or None where it is neutral."""
        return None if self.label == _NEUTRAL else int(self.label > _NEUTRAL)


def phrases(tree: str, where: str) -> list[Phrase]:
    """Every node of a bracketed tree, the whole sentence last, its words in order.

    >>> [(p.label, " ".join(p.words)) for p in phrases("(3 (2 a) (4 (4 great) (2 film)))", "line 1")]
    [(2, 'a'), (4, 'great'), (2, 'film'), (4, 'great film'), (3, 'a great film')]
    """
    open_nodes: list[tuple[int, list[str], list[str]]] = []  # label, words, those of them in no phrase of their own
    found: list[Phrase] = []
    for part in re.findall(r"\(\s*[^\s()]*|\)|[^\s()]+", tree):
        if part.startswith("("):
            label = as_integer(part[1:].strip())
            if label is None or not 0 <= label <= 4 or (found and not open_nodes):
                raise InvalidInput(f"{where}: {part!r} does not begin a phrase with a label from 0 to 4")
            open_nodes.append((label, [], []))
        elif not open_nodes:
            raise InvalidInput(f"{where}: {part!r} stands outside of the tree")
        elif part == ")":
            label, words, own = open_nodes.pop()
            if not words or (own and len(words) > 1):
                raise InvalidInput(f"{where}: a phrase has one word or phrases in it, not {' '.join(words)[:60]!r}")
            found.append(Phrase(label, tuple(words), bool(own)))
            if open_nodes:
                open_nodes[-1][1].extend(words)
        else:
            for words in open_nodes[-1][1:]:
                words.append(_ESCAPES.get(part, part.replace("\\", "")) or part)
    if open_nodes or not found:
        raise InvalidInput(f"{where}: {'a bracket is not closed' if open_nodes else 'no tree'}")
    return found


@task(
    "sst",
    version=1,
    source="Stanford Sentiment Treebank: the authors' trees in a directory (sst/train.txt, dev.txt, test.txt)",
    licence="research use; cite Socher et al. 2013 and Pang and Lee 2005",
    citation="Socher et al. 2013, Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank, EMNLP",
    class_names=CLASSES,
    training={"layers": 2},
    revision="the authors' trees of 2013; the content hash identifies it",
)
class Sst:
    """Sentences of film reviews, some 19 words each, whose every phrase people have judged.

    Gives labels (two classes: neutral sentences are dropped, as in SST-2), human marks and training texts. A word is
    marked where people who were shown it alone put it on the side of its sentence's class; a sentence without such a
    word has no marks. Training texts are the phrases of the training and validation sentences that are not neutral, as
    the authors trained, or those sentences alone. Dropped are neutral texts, texts that come twice, and training texts
    that are also evaluation texts. Written from the description of the data; not tried on the whole of it yet.

    Choose it:
        For short texts of which each word has a judgement of its own. For words in their context take `yelp-hat`.

    Example:
        "(3 (2 a) (4 (4 great) (2 film)))": the sentence is positive (3), so is "great" alone (4), "a" and "film" are
        neutral (2): marks 0 1 0.

    Args:
        train: `phrases`, or `sentences`.

    Reference:
        Socher, Perelygin, Wu, Chuang, Manning, Ng and Potts 2013, Recursive Deep Models for Semantic Compositionality
        Over a Sentiment Treebank, EMNLP; sentences by Pang and Lee 2005, Seeing Stars, ACL.
    """

    remedies = (
        "unpack the authors' trainDevTestTrees_PTB.zip, put its train.txt, dev.txt and test.txt into DIR/sst and give "
        "--data-dir DIR or set SLALOM_BENCH_DATA=DIR",
    )

    def __init__(self, train: str = "phrases") -> None:
        self.train = train

    def sources(self, data_dir: Path | None) -> list[Source]:
        """The directory is the only place."""
        return [Source("directory", "sst", lambda: _name(_files(data_dir)), lambda: _read(data_dir))]

    def load(self, data_dir: Path | None) -> TaskData:
        """The test sentences with their marks, and the phrases of the others."""
        if self.train not in _TRAINED_ON:
            raise InvalidInput(f"sst: train must be one of {', '.join(_TRAINED_ON)}, not {self.train!r}")
        kind, rows = first_present("sst", self.sources(data_dir), self.remedies)
        trees = {split: [row["phrases"] for row in found] for split, found in rows.splits.items()}
        evaluation = _evaluation(trees["test"])
        if not evaluation:
            raise InvalidInput(f"sst: every test sentence of {rows.name} is neutral")
        held = {text_hash(example.text) for example in evaluation}
        learnt = distinct(_texts(trees.get("train", []) + trees.get("validation", []), self.train == "phrases"))
        training = tuple(example for digest, example in learnt.items() if digest not in held)
        note = (
            f"{len(evaluation)} test sentences, {sum(e.word_marks is not None for e in evaluation)} of them with a "
            f"word of their class; dropped: {len(trees['test']) - len(evaluation)} neutral or repeated test sentences, "
            f"{len(learnt) - len(training)} training texts that are also test sentences"
        )
        source = DataSource(kind, rows.name, content_hash(evaluation, training), note)
        return TaskData("sst", source, CLASSES, evaluation, training)


def _files(data_dir: Path | None) -> dict[str, Path]:
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    found = {split: data_dir / "sst" / name for split, name in _FILES.items()}
    if not found["test"].is_file():
        raise Absent("the data directory has no sst/test.txt")
    return {split: path for split, path in found.items() if path.is_file()}


def _name(files: dict[str, Path]) -> str:
    return file_names("sst", {split: [path] for split, path in files.items()})


def _read(data_dir: Path | None) -> SourceRows:
    """The trees of each file, a line each."""
    files = _files(data_dir)
    splits = {
        split: [
            {"phrases": phrases(line, f"sst {path.name}: line {n}")}
            for n, line in enumerate(read_text(path).splitlines(), 1)
            if line.strip()
        ]
        for split, path in files.items()
    }
    return SourceRows(_name(files), splits)


def _evaluation(trees: Iterable[list[Phrase]]) -> tuple[Example, ...]:
    """Sentences that are not neutral, each once, in hash order."""
    examples: dict[str, Example] = {}
    for nodes in trees:
        sentence = nodes[-1]
        if sentence.side is None:
            continue
        # leaves come in the order of the words
        marks = tuple(node.side == sentence.side for node in nodes if node.leaf)
        text = " ".join(sentence.words)
        digest = text_hash(text)
        examples.setdefault(digest, Example(digest[:16], text, sentence.side, marks if any(marks) else None))
    return tuple(example for _, example in sorted(examples.items()))


def _texts(trees: Iterable[list[Phrase]], every: bool) -> Iterator[tuple[str, int]]:
    """Text and class of the sentences, or of every phrase, that are not neutral."""
    for nodes in trees:
        for phrase in nodes if every else nodes[-1:]:
            if phrase.side is not None:
                yield " ".join(phrase.words), phrase.side
