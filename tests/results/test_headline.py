"""Headline numbers: means over models text by text, ties that are tested, words that claim no more."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.results.boards import boards
from slalom_bench.results.collect import collect
from slalom_bench.results.headline import headline
from slalom_bench.results.reading import read_run
from slalom_bench.results.together import Choice, Column, Group, Method, anything, black_box, cheap
from slalom_bench.showing import answers


@pytest.fixture(scope="module")
def found(finished):
    """The headline of a run on two models, made to be of one tier."""
    submissions = [collected.submission for collected in collect(read_run(finished))]
    one_tier = [
        said.model_copy(update={"model": said.model.model_copy(update={"tier": "full"})}) for said in submissions
    ]
    made = boards(one_tier)
    return headline("synthetic-slalom", made), made


def test_a_value_is_the_mean_over_texts_of_the_mean_over_models(found):
    head, made = found
    (group,) = head.groups
    assert group.models == ["mini-bert", "slalom-transformer"]
    assert group.budget == 60
    (column,) = group.columns
    (label,) = column.labels
    own = [board for board in made if board.identity.budget == 60]
    for method in group.methods:
        rows = [next(row for row in board.rows if row.name == method.name) for board in own]
        if all(value is not None for row in rows for value in row.scores(label).values()):
            expected = np.mean([list(row.scores(label).values()) for row in rows])
            assert group.value(column, method.name) == pytest.approx(expected)


def test_the_best_of_some_methods_is_compared_among_them(found):
    (group,) = found[0].groups
    (column,) = group.columns
    every = group.best(column, anything)
    assert every is not None
    assert every.of == len([m for m in group.methods if m.family not in ("baseline", "search")])
    assert {method.name for method in group.methods if cheap(method)} <= {"zero", "random", "grad-x-input"}
    assert all(black_box(method) for method in group.methods if method.name in ("leave-one-out", "linear-deletion"))
    assert group.best(column, lambda method: False) is None


def test_budgets_stand_side_by_side_and_words_name_what_is_tied(found):
    head = found[0]
    (table,) = answers.budget_tables(head)
    assert list(table.heads) == ["30", "60"]
    for answer in answers.answers(head):
        for sentence in answer.sentences:
            text = "".join(part.text for part in sentence)
            assert any(word in text for word in ("tied with", "significantly", "the only one", "told apart", "tell no"))


def test_a_method_that_failed_where_others_did_not_has_no_place_and_no_mean(found):
    """Its mean would be of other texts; and it does not shrink the texts that others are compared on."""
    chosen = next(board for board in found[1] if board.identity.budget == 60)
    row = next(row for row in chosen.rows if row.name == "linear-deletion")
    label = next(iter(row.cells))
    result = row.submitted.results[label]
    gone = next(i for i, value in enumerate(result.values) if value is not None)
    values = [None if i == gone else value for i, value in enumerate(result.values)]
    worse = result.model_copy(update={"values": values, "reasons": {"failed: NotExplained": 1}})
    broken = row.submitted.model_copy(update={"results": {**row.submitted.results, label: worse}})
    said = row.submission
    rows = [broken if one is row.submitted else one for one in said.rows]
    (board,) = (made for made in boards([said.model_copy(update={"rows": rows})]) if made.identity.budget == 60)
    placed = {one.name: one.cells[label].ranked for one in board.rows if label in one.cells}
    before = {one.name: one.cells[label].ranked for one in chosen.rows if label in one.cells}
    assert before["linear-deletion"].rank is not None
    assert {name for name in before if before[name].rank and not placed[name].rank} == {"linear-deletion"}
    assert board.quality[label].texts >= chosen.quality[label].texts
    column = Column("one", (label,), board.metrics[label])
    assert "linear-deletion" not in Group((board,), (column,)).scores["one"]
    assert "linear-deletion" in Group((chosen,), (column,)).scores["one"]


def test_the_only_method_of_a_kind_is_better_than_nobody(found):
    choice = Choice(tied=[Method("lime", "additive", ())], value=1.5, of=1, texts=20, decided=True, clear=True)
    column = Column("srg", (), found[1][0].metrics[next(iter(found[1][0].metrics))])
    alone, best = (answers._chosen(one, column) for one in (choice, choice._replace(of=3)))
    assert (alone.text, alone.strong) == ("lime (srg 1.5, the only one)", False)
    assert (best.text, best.strong) == ("lime (srg 1.5)", True)
