"""Cards: one page for each kind of registered thing, with a section for each of them."""

from __future__ import annotations

import re
from html import escape

from slalom_bench import registry
from slalom_bench.showing.cards import Card, card

ABOUT = {
    "explainer": (
        "Explainers",
        "A score for every token, and of most methods a surrogate that says what the model would answer to a part of "
        "the text. All explain the log-odds F of one class; `needs` is what a model must give. Which one to take: "
        "[Which method should I use?](../choose.md).",
    ),
    "metric": (
        "Metrics",
        "How good an explanation is, a number for each text. The direction says which way is better; `needs` is what "
        "the explanation or the task must give. How means are compared: [Statistics](../statistics.md).",
    ),
    "task": ("Tasks", "Texts to explain. `slalom-bench data NAME` says whether a task's data are on this machine."),
    "model": (
        "Models",
        "Classifiers by name. `slalom-bench list models` says which are here and which would be downloaded or trained; "
        "any function, transformers or scikit-learn pipeline can stand in their place in Python.",
    ),
    "removal": (
        "Removal rules",
        "What becomes of a token that a mask takes away: `--removal NAME`, part of every result.",
    ),
    "law": ("Mask laws", "Which parts of a text are removed, by chance, to test a surrogate or to fit one."),
    "surrogate": (
        "Surrogates",
        "What an explanation predicts of a part of the text: `explanation.surrogate.predict(keep)`.",
    ),
    "suite": ("Suites", "Frozen lists of tasks, models, explainers and budgets: `slalom-bench run --suite NAME`."),
}
COLUMNS = {
    "explainer": ("family", "needs"),
    "metric": ("direction", "needs"),
    "model": ("family", "tier"),
    "task": ("licence",),
}
HIDDEN = ("origin", "order", "level", "headline", "default", "curve", "revision", "citation")
"""Facts that a card leaves to `slalom-bench list NAME`."""


def pages() -> dict[str, str]:
    """The page of every kind, by the kind's plural."""
    return {f"{kind}s": page(kind) for kind in registry.KINDS}


def page(kind: str) -> str:
    """A table of all, then a card of each."""
    title, about = ABOUT[kind]
    made = [card(entry) for entry in registry.KINDS[kind].entries()]
    columns = COLUMNS.get(kind, ())
    rows = [
        f"| [{one.name}](#{anchor(one.name)}) | {cell(one.summary)} | "
        + "".join(f"{cell(one.facts.get(name, ''))} | " for name in columns)
        for one in made
    ]
    head = f"| name | what it is | {''.join(f'{name} | ' for name in columns)}\n|---|---|{'---|' * len(columns)}"
    body = "\n\n".join(section(one) for one in made)
    return f"# {title}\n\n{about}\n\n{head}\n" + "\n".join(rows) + f"\n\n{body}\n"


def section(one: Card) -> str:
    """One card."""
    parts = [
        f"## {one.name} {{ #{anchor(one.name)} }}",
        f"**{prose(one.summary, one.name)}**",
        prose(one.text, one.name),
    ]
    if formula := one.sections.get("Formula"):
        parts.append(f'<pre class="formula">{escape(formula)}</pre>')
    for name, title in (("Choose it", "When to choose it"), ("Example", "By hand"), ("Reference", "Reference")):
        if said := one.sections.get(name):
            parts.append(f"**{title}.** {prose(said, one.name)}")
    facts = [f"{name}: {prose(said, one.name)}" for name, said in one.facts.items() if name not in HIDDEN]
    parts.append('<p class="facts" markdown="span">' + " · ".join(facts) + "</p>")
    if one.parameters:
        rows = [f"| `{p.name}` | {cell(p.type)} | `{p.default!r}` | {cell(p.text)} |" for p in one.parameters]
        parts.append("| parameter | type | default | |\n|---|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(part for part in parts if part)


def anchor(name: str) -> str:
    """The id of a card's heading."""
    return name.replace(".", "-")


def cell(text: str) -> str:
    """Text in a table's cell."""
    return prose(text).replace("|", "\\|").replace("\n", " ")


def prose(text: str, own: str = "") -> str:
    """A docstring's text as Markdown: nothing in it is markup but backticks, and names of cards are links."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(code(part, own) if part.startswith("`") else plain(part) for part in parts)


def plain(text: str) -> str:
    """Words whose every special character stands for itself."""
    return re.sub(r"([\\*_\[\]#|])", r"\\\1", escape(text, quote=False))


def code(quoted: str, own: str) -> str:
    """A name in backticks: a link where exactly one thing is called so, or one of the kind that is meant most."""
    name = quoted.strip("`")
    for kind in ("explainer", "metric", "task", "removal", "law"):
        if name != own and "-" in name and registry.KINDS[kind].find(name):
            return f"[{quoted}]({kind}s.md#{anchor(name)})"
    return quoted.replace("|", "&#124;") if "|" not in quoted else f"<code>{escape(name)}</code>"
