"""The gallery: texts explained on the shipped models, as committed; `python docs/_pages/gallery.py` writes them."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from slalom_bench.showing.explaining import Explained, explain

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
        parts.append(f"## {title}\n\n{about}\n\n{frame(title)}")
        parts.append(
            f'```sh\nslalom-bench explain "{text}" --model {model} {command} --budget {BUDGET} --html page.html\n```'
        )
    return {"gallery.md": "\n\n".join(parts) + "\n"}


def kept(title: str) -> Path:
    """Where an explanation is committed: what `slalom-bench explain --json` says."""
    return HERE / "gallery" / f"{title.lower().replace(' ', '-').replace(',', '')}.json"


def frame(title: str) -> str:
    """A committed explanation in a frame of its own."""
    explained = Explained.from_dict(json.loads(kept(title).read_text(encoding="utf-8")))
    inside = escape(explained.to_html()).replace("\n\n", "\n")  # an empty line would end the element for Markdown
    text = escape(explained.sample.text or "")
    return f'<iframe class="explanation" sandbox="allow-scripts" title="{text}" srcdoc="{inside}"></iframe>'


def main() -> None:
    """Explain the texts anew and write what is committed."""
    for text, model, methods, title, _ in TEXTS:
        explained = explain(text, model=model, explainer=list(methods), budget=BUDGET)
        kept(title).parent.mkdir(exist_ok=True)
        kept(title).write_text(json.dumps(explained.to_dict(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
