"""Hooks of mkdocs: pages made of the registry, the published results, the notebooks and the repository's own guides.

Nothing that is generated is committed: what is registered when the site is built has its card.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import cards  # noqa: E402
import choosing  # noqa: E402
import gallery  # noqa: E402
import notebooks  # noqa: E402
import reference  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402

CONCEPTS = ("validity.md", "findings.md", "models.md", "reproduction.md")
"""Of the pages that mkdocs.yml does not name, those that stand under Concepts; all others stand under Contribute."""
GUIDE = {
    "docs/design.md": "design.md",
    "docs/statistics.md": "statistics.md",
    "docs/interfaces.md": "interfaces.md",
    "slalom_bench/interfaces.py": "api.md#what-a-plug-in-must-look-like",
    "leaderboards/README.md": "leaderboards/index.html",
}
"""Where links of the repository's guides lead on the site."""


def on_config(config: Any) -> Any:
    """Put every page into the navigation that mkdocs.yml does not name: nothing that is written is left out."""
    parts = {title: pages for part in config.nav for title, pages in part.items()}
    named = {page for pages in parts.values() if isinstance(pages, list) for page in pages}
    for page in sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in named):
        parts["Concepts" if page in CONCEPTS else "Contribute"].append(page)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is generated."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    folder = ROOT / "leaderboards"
    for page in sorted([*folder.glob("index.html"), *folder.glob("*/tables*.html")]):
        board = page.read_text(encoding="utf-8").replace("../docs/index.md", "../index.html")
        files.append(File.generated(config, f"leaderboards/{page.relative_to(folder).as_posix()}", content=board))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the answers across tasks where a page asks for them."""
    return markdown.replace("<!-- headline -->", choosing.headline()) if "<!-- headline -->" in markdown else markdown


def pages() -> dict[str, str]:
    """Path to Markdown of every generated page."""
    made = {f"cards/{kind}.md": text for kind, text in cards.pages().items()}
    made |= {f"notebooks/{name}.md": text for name, text in notebooks.pages().items()}
    made |= reference.pages()
    made["choose.md"] = choosing.page()
    made |= gallery.pages()
    made["contributing.md"] = guide(ROOT / "CONTRIBUTING.md")
    return made


def guide(path: Path) -> str:
    """A guide of the repository with its links as they are on the site; one that leads nowhere is said."""

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"https?:|#|mailto:", target):
            return found[0]
        if target in GUIDE:
            return f"[{found[1]}]({GUIDE[target]})"
        if target.startswith("docs/") and (ROOT / target).is_file():
            return f"[{found[1]}]({target.removeprefix('docs/')})"
        if (ROOT / target.split("#")[0]).exists():
            return f"{found[1]} (`{target}` in the repository)"
        raise FileNotFoundError(f"{path.name}: a link to {target!r} leads nowhere")

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, path.read_text(encoding="utf-8"))
