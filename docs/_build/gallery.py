"""The gallery: a few texts explained by several methods, computed with the shipped models when the site is built."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from notebooks import SKIP

HERE = Path(__file__).resolve().parent
BUDGET = 300
TEXTS = (
    (
        "A dull start, but what a finish! The last half hour is funny, moving and beautifully played.",
        "mini-bert",
        ("slalom-anchor", "lime", "grad-x-input"),
        "Three methods, one text",
        "A query method with two numbers a token, an additive one, and one gradient. Look at *dull*: where the whole "
        "text is clearly positive, how much does it still count against?",
    ),
    (
        "I did not like it. Not one of the jokes is good, and not even the great cast could save this film.",
        "mini-bert",
        ("slalom-anchor", "partition-shap", "leave-one-out"),
        "Negation",
        "*Like*, *good* and *great* stand in a text that the model reads as negative. `partition-shap` splits phrases "
        "before words.",
    ),
    (
        "great great great great film",
        "mini-gpt2",
        ("slalom-fidel", "linear-deletion"),
        "Repetition",
        "Softmax attention averages: a fourth *great* adds less than the first, which no sum of weights can say and a "
        "weighted mean can.",
    ),
    (
        "The plot is thin and the ending is weak, yet I enjoyed every minute of it.",
        "mini-distilbert",
        ("slalom-anchor", "integrated-gradients", "attention-avg"),
        "Attention is no attribution",
        "Attention weights have no sign: they say where a layer looks, not which class a token speaks for.",
    ),
)


def pages() -> dict[str, str]:
    """The gallery page; each explanation is the page that `slalom-bench explain --html` writes."""
    parts = [(HERE / "gallery.md").read_text(encoding="utf-8")]
    for text, model, methods, title, about in TEXTS:
        command = " ".join(f"--explainer {method}" for method in methods)
        parts.append(f"## {title}\n\n{about}\n\n{frame(text, model, methods)}")
        parts.append(f'```sh\nslalom-bench explain "{text}" --model {model} {command} --budget {BUDGET} --html page.html\n```')
    return {"gallery.md": "\n\n".join(parts) + "\n"}


def frame(text: str, model: str, methods: tuple[str, ...]) -> str:
    """An explanation in a frame of its own."""
    if os.environ.get(SKIP):
        return "*left out of this quick build*"
    import slalom_bench

    page = slalom_bench.explain(text, model=model, explainer=list(methods), budget=BUDGET).to_html()
    return f'<iframe class="explanation" sandbox="allow-scripts" title="{escape(text)}" srcdoc="{escape(page)}"></iframe>'.replace("\n\n", "\n")
