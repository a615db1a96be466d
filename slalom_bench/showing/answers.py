"""Headlines in words: which method for which purpose, at which cost, how sure; and the tables that say so.

Plain data for Markdown and for pages alike. Words claim what the comparison shows and no more: a method is called
better only where it is told apart, on these texts and these models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from slalom_bench.entries import Tier
from slalom_bench.results.headline import FIDELITY, RANKING, TRUTH, Headline
from slalom_bench.results.separation import too_few
from slalom_bench.results.together import CHEAP, Choice, Column, Group, Method, anything, black_box, cheap
from slalom_bench.showing.wording import ARROWS, cut, number

TIERS: dict[Tier, tuple[str, str]] = {
    "full": ("full-size", "models of the size that the task calls for"),
    "small-pretrained": ("pretrained", "small pretrained models"),
    "embedded": ("small", "the small models of the package"),
    "exact": ("exact", "the task's own law"),
}
"""Of each tier a word for the head of a column, and one for a sentence."""
NONE = "-"
NAMED = 4
"""Names of tied methods that a sentence has room for."""
TIED = (
    "Tied: none does better on significantly more texts, by what could matter (sign tests of all pairs of methods at "
    "once, family-wise 5 %). The level is over texts: of other models it says nothing."
)


class Purpose(NamedTuple):
    """What a method is wanted for: by which column, and which methods may be taken."""

    title: str
    short: str
    columns: Sequence[str]
    allowed: Callable[[Method], bool]


PURPOSES = (
    Purpose("To foretell what the model says when words go", "foretells removals", (FIDELITY,), anything),
    Purpose("The same of a black box, from answers alone", "foretells removals, answers alone", (FIDELITY,), black_box),
    Purpose("To rank the tokens by what they do to the model", "ranks tokens", RANKING, anything),
    Purpose("The same of a black box", "ranks tokens, answers alone", RANKING, black_box),
    Purpose(
        f"The same in at most {CHEAP} queries, a backward pass among them",
        f"ranks tokens, at most {CHEAP} queries",
        RANKING,
        cheap,
    ),
    Purpose("To agree with what is known beside the model", "agrees with what is known", TRUTH, anything),
)


class Said(NamedTuple):
    """A piece of a sentence; names that lead are strong."""

    text: str
    strong: bool = False


class Answer(NamedTuple):
    """A purpose, the quantity that decides it, and a sentence for each tier."""

    title: str
    by: str
    sentences: Sequence[Sequence[Said]]


class Cell(NamedTuple):
    """A number in a table of methods; marked where it is the best or tied with it."""

    text: str
    marked: bool = False
    sort: str = ""


class Table(NamedTuple):
    """A table of methods: the heads of its columns, and rows of a name, a family and cells."""

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[Cell]]]


def answers(found: Headline) -> list[Answer]:
    """What a task's results say of every purpose that they speak of."""
    made = []
    for purpose in PURPOSES:
        told = [(group, column) for group in found.groups if (column := _column(group, purpose)) is not None]
        pairs = [(group, column, group.best(column, purpose.allowed)) for group, column in told]
        known = [(group, column, choice) for group, column, choice in pairs if choice is not None]
        if known:
            made.append(Answer(purpose.title, meaning(known[0][1]), [_sentence(*one) for one in known]))
    return made


def _column(group: Group, purpose: Purpose) -> Column | None:
    return next((column for column in group.columns if column.name in purpose.columns), None)


def _sentence(group: Group, column: Column, choice: Choice) -> list[Said]:
    where = f"On {TIERS[group.tier][1]}: "
    if not choice.decided:
        why = "so few texts tell no methods apart" if too_few(choice.texts) else "no two methods are told apart here"
        return [Said(f"{where}{why}; the best mean, {number(choice.value)}, has {choice.tied[0].name}.")]
    best, *others = choice.tied
    told = f", {number(choice.value)}; {_tied(others, choice)}; {cost(best)}."
    return [Said(where), Said(best.name, strong=True), Said(told)]


def _tied(others: Sequence[Method], choice: Choice) -> str:
    if others:
        names = ", ".join(method.name for method in others[:NAMED])
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        return f"tied with {names}{more} (of {choice.of} methods)"
    if choice.of == 1:
        return "the only one"
    if choice.clear:
        return f"significantly better than each of the other {choice.of - 1} methods"
    return f"each of the other {choice.of - 1} methods is significantly worse than this one or another"


def cost(method: Method) -> str:
    """`1,000 queries, 0.9 s a text`."""
    asked = "" if method.queries is None else f"{method.queries:,.0f} {'query' if method.queries == 1 else 'queries'}"
    took = "" if method.seconds is None else f"{number(method.seconds)} s"
    return f"{', '.join(part for part in (asked, took) if part) or 'cost unknown'} a text"


def meaning(column: Column) -> str:
    """What a column is."""
    arrow = ARROWS[column.info.direction]
    if column.name == FIDELITY:
        laws = ", ".join(label.name.removeprefix("fidelity-") for label in column.labels)
        return (
            f"fidelity {arrow}: error of the predicted change over that of predicting none (1: worth nothing); "
            f"geometric mean over texts and mask laws ({laws})"
        )
    return f"{column.name} {arrow}: {column.info.summary.rstrip('.')}"


def meanings(found: Headline) -> list[str]:
    """What each column of the headline table is, once."""
    return list(dict.fromkeys(meaning(column) for group in found.groups for column in group.columns))


def sure(group: Group) -> str:
    """How many texts and models, how reliable each column is, how much it tells apart."""
    said = group.boards[0].identity
    models = ", ".join(group.models)
    parts = []
    for column in group.columns:
        found = group.quality[column.name]
        reliable = "unknown" if found.reliability is None else f"{found.reliability:.2f}"
        apart = "" if found.told_apart is None else f", {found.told_apart:.0%} of pairs told apart"
        parts.append(f"{column.name} {reliable} ({found.texts} texts{apart})")
    mean = " (a text's value is the mean over them)" if len(group.models) > 1 else ""
    where = "; ".join(str(machine) for machine in group.machines)
    timed = f" Seconds: {where}." if len(group.machines) == 1 else " Seconds are of several machines or unknown."
    texts = f"{len(group.boards[0].samples)} texts, {cut(group.boards[0])}"
    return (
        f"{_capital(TIERS[group.tier][1])}: {models}{mean}. {texts}; "
        f"budget {group.budget:,}; removal {said.removal}; protocol {said.protocol}. "
        f"Reliability over texts (split-half, stepped up): {'; '.join(parts)}.{timed}"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def headline_table(found: Headline) -> Table:
    """Methods by headline quantities, tiers side by side, best of the first tier first."""
    tiers = len(found.groups) > 1
    columns = list(dict.fromkeys(column.name for group in found.groups for column in group.columns))
    heads = ["needs", "queries", *(_head("seconds", group, tiers) for group in found.groups)]
    shown: list[tuple[str, Group]] = [
        (name, group)
        for name in columns
        for group in found.groups
        if any(column.name == name for column in group.columns)
    ]
    for name, group in shown:
        info = next(column.info for column in group.columns if column.name == name)
        heads.append(_head(f"{name} {ARROWS[info.direction]}", group, tiers))
    rows = []
    for method in _ordered(found):
        own = [next((m for m in group.methods if m.name == method.name), None) for group in found.groups]
        queries = [m.queries for m in own if m is not None and m.queries is not None]
        cells = [Cell(needs(method)), _queries(queries), *(_seconds(m) for m in own)]
        cells += [_value(group, name, method.name) for name, group in shown]
        rows.append((method.name, method.family, cells))
    return Table("", heads, rows)


def _head(name: str, group: Group, tiers: bool) -> str:
    return f"{name}, {TIERS[group.tier][0]}" if tiers else name


def _ordered(found: Headline) -> list[Method]:
    """All methods by their place in the first column of the first tier that ranks them, then in the next."""
    places: dict[str, tuple[int, int]] = {}
    methods: dict[str, Method] = {}
    columns = [(group, column) for group in found.groups for column in group.columns]
    for group in found.groups:
        for method in group.methods:
            methods.setdefault(method.name, method)
    for i, (group, column) in enumerate(columns):
        for name, ranked in group.places(column.name).items():
            if ranked.rank is not None:
                places.setdefault(name, (i, ranked.rank))
    last = (len(columns), 0)
    return [methods[name] for name in sorted(methods, key=lambda name: (*places.get(name, last), name))]


def needs(method: Method) -> str:
    """What of a model a method asks for, in a word."""
    found = method.needs
    if found is None:
        return "?"
    if found <= {"queries"}:
        return "answers" if found else "nothing"
    return "gradients" if found <= {"queries", "gradients"} else "inside"


def _queries(counts: Sequence[float]) -> Cell:
    if not counts:
        return Cell(NONE)
    low, high = round(min(counts)), round(max(counts))
    return Cell(f"{low:,}" if low == high else f"{low:,} to {high:,}", sort=repr(max(counts)))


def _seconds(method: Method | None) -> Cell:
    if method is None or method.seconds is None:
        return Cell(NONE)
    return Cell(number(method.seconds), sort=repr(method.seconds))


def _value(group: Group, name: str, method: str) -> Cell:
    """A method's value; a dash where it has none on every model."""
    column = next(column for column in group.columns if column.name == name)
    value = group.value(column, method)
    if value is None:
        return Cell(NONE)
    ranked = group.places(name).get(method)
    marked = ranked is not None and ranked.tied_with_best and group.quality[name].separates
    return Cell(number(value), marked, repr(value))


def budget_tables(found: Headline) -> list[Table]:
    """Quality against budget: of each tier and quantity, methods by budgets."""
    made = []
    for tier, groups in found.budgets.items():
        for column in groups[-1].columns:
            heads = [f"{group.budget:,}" for group in groups]
            title = f"{column.name} {ARROWS[column.info.direction]} against budget, {TIERS[tier][1]}"
            made.append(_beside(title, heads, groups, column))
    return made


def rule_tables(found: Headline) -> list[Table]:
    """Removal rules side by side: of each model and quantity, methods by rules."""
    made = []
    for model, groups in found.rules.items():
        for column in groups[0].columns:
            heads = [str(group.boards[0].identity.removal) for group in groups]
            made.append(
                _beside(
                    f"{column.name} {ARROWS[column.info.direction]} by removal rule, {model}", heads, groups, column
                )
            )
    return made


def _beside(title: str, heads: Sequence[str], groups: Sequence[Group], column: Column) -> Table:
    """One quantity of several groups; each column is marked by itself."""
    rows = []
    for method in _ordered(Headline("", tuple(reversed(groups)), {}, {})):
        has = [any(one.name == column.name for one in group.columns) for group in groups]
        pairs = zip(groups, has, strict=True)
        cells = [_value(group, column.name, method.name) if ok else Cell(NONE) for group, ok in pairs]
        if any(cell.text != NONE for cell in cells):
            rows.append((method.name, method.family, cells))
    return Table(title, heads, rows)


def overview_table(found: Sequence[Headline]) -> tuple[list[str], list[tuple[str, list[Said | str]]]]:
    """Across tasks: a row a task and tier; a column a purpose, with the best method and how many are tied."""
    heads = ["task", "models", "texts", *(purpose.short for purpose in PURPOSES)]
    rows: list[tuple[str, list[Said | str]]] = []
    for one in found:
        for group in one.groups:
            cells: list[Said | str] = []
            for purpose in PURPOSES:
                column = _column(group, purpose)
                choice = None if column is None else group.best(column, purpose.allowed)
                cells.append(NONE if choice is None or column is None else _chosen(choice, column))
            rows.append((one.task, [TIERS[group.tier][0], str(len(group.boards[0].samples)), *cells]))
    return heads, rows


def _chosen(choice: Choice, column: Column) -> Said:
    others = len(choice.tied) - 1
    if not choice.decided:
        return Said(f"{column.name}: no two told apart")
    tied = f", {others} tied" if others else ", the only one" if choice.of == 1 else ""
    clear = choice.clear and choice.of > 1
    return Said(f"{choice.tied[0].name} ({column.name} {number(choice.value)}{tied})", strong=clear)
