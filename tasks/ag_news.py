"""AG News (Zhang et al. 2015): short news texts of four topics, the real task of more than two classes."""

from __future__ import annotations

from pathlib import Path

from slalom_bench.core.types import DataSource, TaskData
from slalom_bench.data.sources import Absent, Source, SourceRows, file_names, first_present, hub_source, table_files
from slalom_bench.data.splits import content_hash, split_texts
from slalom_bench.data.tables import read_rows
from slalom_bench.registry import task

CLASSES = ("World", "Sports", "Business", "Sci/Tech")
HUB = "fancyzhx/ag_news"
_COLUMNS = ("text", "label")


@task(
    "ag-news",
    version=1,
    source="AG News: a directory (ag_news/dev.tsv and test.tsv) or the hub (fancyzhx/ag_news)",
    licence="non-commercial research use; cite Zhang, Zhao and LeCun 2015",
    citation="Zhang, Zhao and LeCun 2015, Character-level Convolutional Networks for Text Classification, NeurIPS",
    class_names=CLASSES,
    training={"layers": 2},
    revision="as found; the content hash identifies it",
)
class AgNews:
    """News texts of four topics (World, Sports, Business, Sci/Tech), some 40 tokens each; 7,600 for evaluation.

    Gives labels and training texts. The explained class is the one that the model predicts, as for every task of more
    than two classes. Shipped minis know two classes: here they are trained first, on the task's own texts. Training
    texts are those of `train`, or of `dev` (a part of them) where a directory has no `train`. The hub's texts have the
    headline before the text, those of the tab-separated files have not: the content hash tells them apart. Dropped are
    texts that come twice, and test texts that are also training texts.

    Choose it:
        For more than two classes, and for short texts, on which every method is quick.

    Example:
        Logits 1, 4, 0 and 2 (World, Sports, Business, Sci/Tech): Sports is predicted, so Sports is explained. Its
        log-odds are 4 - log(e^1 + e^0 + e^2) = 4 - 2.41 = 1.59, its probability is 0.83.

    Args:
        split: as in imdb: `official`, `hash`, or `auto` (official where there is a test split, else by a hash of the
            text).

    Reference:
        Zhang, Zhao and LeCun 2015, Character-level Convolutional Networks for Text Classification, NeurIPS.
    """

    remedies = (
        "point --data-dir or SLALOM_BENCH_DATA at a folder with ag_news/dev.tsv (or train.tsv) and ag_news/test.tsv: "
        "text, tab, class name, no header (or .parquet, .csv, .jsonl with columns text, label)",
        "connect to the hub, with HF_HUB_OFFLINE and HF_DATASETS_OFFLINE unset",
    )

    def __init__(self, split: str = "auto") -> None:
        self.split = split

    def sources(self, data_dir: Path | None) -> list[Source]:
        """Where the texts may be, in the order in which they are looked for."""
        directory = Source("directory", "ag_news", lambda: _files(data_dir)[0], lambda: _read(data_dir))
        return [directory, hub_source(HUB, ("train", "test"))]

    def load(self, data_dir: Path | None) -> TaskData:
        """The texts from the first source that has them."""
        kind, rows = first_present("ag-news", self.sources(data_dir), self.remedies)
        evaluation, training, note = split_texts("ag-news", rows.splits, CLASSES, self.split)
        source = DataSource(kind, rows.name, content_hash(evaluation, training), note)
        return TaskData("ag-news", source, CLASSES, evaluation, training)


def _files(data_dir: Path | None) -> tuple[str, dict[str, list[Path]]]:
    """A short name, and the files of `train` and `test`; `dev` is what is trained on where there is no `train`."""
    if data_dir is None:
        raise Absent("no --data-dir and no SLALOM_BENCH_DATA")
    for stems in (("train", "test"), ("dev", "test")):
        if files := table_files(data_dir / "ag_news", stems):
            return file_names("ag_news", files), {stem.replace("dev", "train"): paths for stem, paths in files.items()}
    raise Absent("the data directory has neither ag_news/train nor ag_news/dev (.parquet, .csv, .tsv, .jsonl)")


def _read(data_dir: Path | None) -> SourceRows:
    """The rows of each split; tab-separated files have no header."""
    name, files = _files(data_dir)
    return SourceRows(
        name,
        {
            split: [
                row
                for path in paths
                for row in read_rows(path, _COLUMNS, header=_COLUMNS if path.suffix == ".tsv" else None)
            ]
            for split, paths in files.items()
        },
    )
