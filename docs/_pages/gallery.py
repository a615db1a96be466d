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
        "The plot is thin and the ending is weak, yet I enjoyed every minute of it.",
        "mini-bert",
        ("slalom-anchor", "lime", "grad-x-input"),
        "Three methods, one text",
        "A query method with two numbers a token, an additive one, and one gradient. They agree on *thin*, *weak* and "
        "*enjoyed*; look at what they say of *yet* and of the words between.",
    ),
    (
        "I did not like it. Not one of the jokes is good, and not even the great cast could save this film.",
        "mini-distilbert",
        ("slalom-anchor", "partition-shap", "leave-one-out"),
        "Praise in a bad review",
        "*Like*, *good* and *great* speak for the class in a text that the model reads otherwise. `partition-shap` "
        "splits phrases before words.",
    ),
    (
        "great great great great film",
        "mini-gpt2",
        ("slalom-eff", "leave-one-out"),
        "Repetition",
        "No single *great* matters: with one of four gone the answer is the same, and `leave-one-out` sees nothing. "
        "`slalom-eff` asks what words say by themselves: a weighted mean, which a fourth *great* does not move.",
    ),
    (
        "A wonderful film: funny, moving, beautifully played, and only a little too long.",
        "mini-gpt2",
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
        parts.append(
            f'```sh\nslalom-bench explain "{text}" --model {model} {command} --budget {BUDGET} --html page.html\n```'
        )
    return {"gallery.md": "\n\n".join(parts) + "\n"}


def frame(text: str, model: str, methods: tuple[str, ...]) -> str:
    """An explanation in a frame of its own."""
    if os.environ.get(SKIP):
        return "*left out of this quick build*"
    import slalom_bench

    page = slalom_bench.explain(text, model=model, explainer=list(methods), budget=BUDGET).to_html()
    inside = escape(page).replace("\n\n", "\n")  # an empty line would end the element for Markdown
    return f'<iframe class="explanation" sandbox="allow-scripts" title="{escape(text)}" srcdoc="{inside}"></iframe>'
