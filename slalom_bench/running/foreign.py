"""Attributions of other packages as explanations for `slalom-bench score`: shap, captum, inseq, interpreto.

Each reader gives pieces of text with a score each. The pieces are found again in the sample's text, whatever tokenizer
made them, and a piece's score is spread over the content tokens that it covers by the characters they share, so that
sums are kept. Special tokens, which are no part of the text, are left out.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from slalom_bench.core.json_text import parse_json
from slalom_bench.core.types import Floats
from slalom_bench.data.tables import read_text
from slalom_bench.errors import InvalidInput
from slalom_bench.running.files import write_text
from slalom_bench.running.shapes import Count, Row, why

_MARKS = ("##", "\u2581", "\u0120", "\u010a", "</w>", "@@")
"""How tokenizers write that a piece goes on, or begins, a word."""
_UNKNOWN = ("[unk]", "<unk>")
"""What stands for a word that a tokenizer does not know."""
_END = "\0"
"""Behind the last piece."""
_LEFT_OUT = 24
"""Most characters between two pieces that no piece has: `<br /><br />`, say, and a control character."""
Pieces = list[tuple[str, float]]


def read_foreign(outputs: Any) -> list[Pieces]:
    """What another package returned, as pieces of text with their scores, one list a text.

    Args:
        outputs: a `shap.Explanation` of one or more texts; one or more of captum's `VisualizationDataRecord`, of
            interpreto's `AttributionOutput`, of inseq's outputs; or lists of (piece, score) pairs.
    """
    if hasattr(outputs, "base_values") and hasattr(outputs, "values"):
        return _of_shap(outputs)
    if hasattr(outputs, "sequence_attributions"):
        return [_of_one(each) for each in outputs.sequence_attributions]
    if isinstance(outputs, (list, tuple)) and outputs and not _is_pairs(outputs):
        return [_of_one(each) for each in outputs]
    return [_of_one(outputs)]


def _is_pairs(value: Any) -> bool:
    return all(isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str) for pair in value)


def _of_one(each: Any) -> Pieces:
    """One text: captum's record, interpreto's and inseq's outputs, or pairs."""
    if hasattr(each, "word_attributions"):
        return _paired(each.raw_input_ids, each.word_attributions)
    if hasattr(each, "elements") and hasattr(each, "attributions"):
        return _paired(each.elements, each.attributions)
    if hasattr(each, "source_attributions"):
        # a classifier's label is one generated token: its column; a granular attribution is summed over its parts
        own = each.source_attributions is not None
        scores = _array(each.source_attributions if own else each.target_attributions)
        tokens = [getattr(token, "token", token) for token in (each.source if own else each.target)]
        scores = scores.reshape(*scores.shape[:2], -1).sum(axis=2)
        if scores.shape[1] != 1:
            raise InvalidInput(f"inseq: scores of {scores.shape[1]} generated tokens; keep that of the label alone")
        return _paired(tokens, scores[:, 0])
    if isinstance(each, (list, tuple)) and _is_pairs(each):
        return _paired([piece for piece, _ in each], [score for _, score in each])
    raise InvalidInput(
        f"{type(each).__name__} is not understood; give outputs of shap, captum, inseq or interpreto, "
        "or (piece, score) pairs"
    )


def _of_shap(explanation: Any) -> list[Pieces]:
    one = len(explanation.data) > 0 and isinstance(explanation.data[0], str)
    texts, values = ([explanation.data], [explanation.values]) if one else (explanation.data, explanation.values)
    if len(texts) != len(values):
        raise InvalidInput(f"shap: scores of {len(values)} texts, and tokens of {len(texts)}")
    return [_paired(data, value) for data, value in zip(texts, values, strict=True)]


def _array(values: Any) -> Floats:
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"scores that are no numbers: {error}") from error


def _paired(pieces: Iterable[Any], scores: Any) -> Pieces:
    values, texts = _array(scores), [str(piece) for piece in pieces]
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.shape != (len(texts),):
        raise InvalidInput(f"scores of shape {values.shape} for {len(texts)} tokens; choose the explained class")
    return list(zip(texts, values.tolist(), strict=True))


def spread(text: str, pieces: Pieces, offsets: Sequence[tuple[int, int]]) -> Floats:
    """The pieces' scores over tokens at these offsets of the text (n).

    What a tokenizer leaves out of the text (control characters, line breaks of HTML) may stand between two pieces, and
    what it did not know, between its neighbours, gets the score of `[UNK]`.

    >>> spread("so good", [("[CLS]", 9.0), ("so", 1.0), ("go", 2.0), ("##od", 4.0)], [(0, 2), (3, 7)]).tolist()
    [1.0, 6.0]
    """
    plain, places = _plain(text)
    starts, ends = (np.array(side, np.int64) for side in zip(*offsets, strict=True))
    shares, at, unknown = np.zeros(len(offsets)), 0, 0.0
    for piece, score in [(piece, score) for piece, score in pieces if _bare(piece)] + [(_END, 0.0)]:
        if not np.isfinite(score):
            raise InvalidInput(f"the score of {piece!r} is not finite: that is no explanation")
        bare = "" if piece == _END else _bare(piece)
        if bare in _UNKNOWN:
            unknown += score
            continue
        found = len(plain) if piece == _END else _next(plain, bare, at)
        if found is None:
            if not _special(piece):
                raise InvalidInput(f"{piece!r} does not stand in the text where it should; is it another text?")
            continue
        for value, start, end in ((unknown, at, found), (score, found, found + len(bare))):
            overlap = np.maximum(np.minimum(ends, places[end]) - np.maximum(starts, places[start]), 0)
            if value and overlap.sum():
                shares += value * overlap / overlap.sum()
        at, unknown = found + len(bare), 0.0
    return shares


def _plain(text: str) -> tuple[str, list[int]]:
    """A text in lower case without accents, and where each of its characters, and its end, stands in the text."""
    letters = [
        (letter, place)
        for place, character in enumerate(text)
        for letter in unicodedata.normalize("NFD", character.lower())
        if not unicodedata.combining(letter)
    ]
    return "".join(letter for letter, _ in letters), [*(place for _, place in letters), len(text)]


def _special(piece: str) -> bool:
    """Whether a piece is a token of the model's and none of the text."""
    return piece[:1] in "[<" and piece[-1:] in "]>"


def _bare(piece: str) -> str:
    """A piece as it stands in the plain text: without marks and white space at its ends."""
    for mark in _MARKS:
        piece = piece.replace(mark, "") if piece != mark else piece
    return _plain(piece)[0].strip()


def _next(text: str, piece: str, at: int) -> int | None:
    """Where a piece stands: at once but for white space, else behind what a tokenizer may leave out; None: nowhere."""
    start = len(text) - len(text[at:].lstrip()) if text[at:].strip() else len(text)
    if text.startswith(piece, start):
        return start
    found = text.find(piece, start, start + _LEFT_OUT + len(piece))
    return None if found < 0 else found


def write_scores(
    outputs: Any, samples: str | Path, out: str | Path, *, target: int | None = None, unsigned: bool = False
) -> Path:
    """Write what another package returned as a file for `slalom-bench score`.

    Args:
        outputs: as `read_foreign` takes them, in the order of the samples.
        samples: the file that `slalom-bench score FILE --write-samples` wrote.
        out: where to write the explanations, one JSON object a line.
        target: the class that was explained; else what the samples say.
        unsigned: whether the scores have no sign.

    Returns:
        The path of the file.
    """
    rows = _described(Path(samples))
    texts = read_foreign(outputs)
    if len(rows) != len(texts):
        raise InvalidInput(f"{len(texts)} explanations for the {len(rows)} samples of {samples}")
    lines = [_line(row, pieces, target, unsigned) for row, pieces in zip(rows, texts, strict=True)]
    path = Path(out)
    write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
    return path


class _Described(Row):
    """A line that `score FILE --write-samples` wrote, as far as it is needed here."""

    text: str | None
    target: Count = 1
    offsets: list[Annotated[list[Count], Field(min_length=2, max_length=2)]] | None


def _described(path: Path) -> list[_Described]:
    """The samples of a file; the first bad line is named by its number."""
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file; `slalom-bench score FILE --write-samples` writes it")
    found = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            try:
                found.append(_Described.model_validate(parse_json(line)))
            except ValueError as error:
                raise InvalidInput(f"{path.name}: line {number}: {why(error)}") from error
    return found


def _line(row: _Described, pieces: Pieces, target: int | None, unsigned: bool) -> dict[str, Any]:
    if not row.text or not row.offsets:
        raise InvalidInput(f"sample {row.id!r} has no text with offsets to find the pieces in")
    try:
        scores = spread(row.text, pieces, [(start, end) for start, end in row.offsets]).tolist()
    except InvalidInput as error:
        raise InvalidInput(f"sample {row.id}: {error}") from error
    return {"id": row.id, "scores": scores, "target": row.target if target is None else target, "unsigned": unsigned}
