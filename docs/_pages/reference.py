"""Reference pages: the result schema from its pydantic models, the commands from their own help."""

from __future__ import annotations

import inspect
import re
import typing
from html import escape

from pydantic import BaseModel

from slalom_bench.results.submission import Submission


def pages() -> dict[str, str]:
    """Path to Markdown."""
    return {"schema.md": schema(), "commands.md": commands()}


def schema() -> str:
    """Every record of a submission, outermost first."""
    found: dict[str, type[BaseModel]] = {}
    _collect(Submission, found)
    version = Submission.model_fields["schema_version"].default
    parts = [
        "# Result schema",
        f"`slalom-bench submit RUN` writes one JSON file for each task, model and protocol (schema {version}), "
        "`slalom-bench verify FILE` checks it, `leaderboards/results/` keeps it. No text of a sample is in it. Fields "
        "that are not listed are refused. The same as a JSON Schema: "
        "`python -c 'import json; from slalom_bench.results.submission import Submission as S; "
        "print(json.dumps(S.model_json_schema(), indent=1))'`.",
    ]
    for name, model in found.items():
        texts = _field_texts(model)
        rows = [
            f"| `{field}` | {_kind(str(info.annotation))} | {'' if info.is_required() else f'`{_default(info)}`'} "
            f"| {texts.get(field, '')} |"
            for field, info in model.model_fields.items()
        ]
        about = (inspect.getdoc(model) or "").replace("\n", " ")
        parts.append(f"## {name}\n\n{about}\n\n| field | type | default | |\n|---|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _default(info: typing.Any) -> str:
    return repr(info.default_factory()) if info.default_factory else repr(info.default)


def _collect(model: type[BaseModel], found: dict[str, type[BaseModel]]) -> None:
    """A record and all records inside it."""
    if model.__name__ in found:
        return
    found[model.__name__] = model
    for info in model.model_fields.values():
        for inner in _records(info.annotation):
            _collect(inner, found)


def _records(annotation: typing.Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _records(part)]


def _kind(annotation: str) -> str:
    """A type in few words, its records as links."""
    text = re.sub(r"<class '([^']+)'>", r"\1", annotation)
    text = re.sub(r"Annotated\[(\w+), .*?\)\]\)?\]?", r"\1", text) if "Annotated" in text else text
    text = re.sub(r"\b(?:[a-z_]+\.)+([A-Za-z]\w*)", r"\1", text)
    text = re.sub(r"Annotated\[([A-Za-z]+)[^\]]*\]", r"\1", text)
    return "<code>" + escape(text).replace("|", "&#124;") + "</code>"


def _field_texts(model: type[BaseModel]) -> dict[str, str]:
    """The string that stands below each field in the source, in its own class and those it comes from."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base.__module__.startswith("slalom_bench"):
            pattern = r'^    (\w+): [^\n]+\n    """(.+?)"""'
            for name, said in re.findall(pattern, inspect.getsource(base), re.MULTILINE | re.DOTALL):
                found[name] = " ".join(said.split()).replace("|", "\\|")
    return found


def commands() -> str:
    """Every command with its arguments and options."""
    import typer.main

    from slalom_bench.cli import app

    group = typer.main.get_command(app)
    parts = ["# Commands", "`slalom-bench COMMAND --help` says the same in a terminal."]
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        rows = []
        for each in command.params:
            option = each.param_type_name == "option"
            if option and each.hidden:
                continue
            flag = ", ".join(each.opts) if option else (each.metavar or each.name).upper()
            said = (getattr(each, "help", None) or "").replace("|", "\\|")
            default = "" if each.default in (None, False, ()) or callable(each.default) else f"`{each.default}`"
            rows.append(f"| `{flag}` | {escape(said, quote=False)} | {default} |")
        parts.append(f"## {name}\n\n{_help(inspect.getdoc(command.callback) or '')}")
        if rows:
            parts.append("| | | default |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _help(text: str) -> str:
    """A command's help with its examples as code."""
    words, _, examples = text.partition("Examples:")
    lines = [" ".join(part.split()) for part in examples.split("\n\n") if part.strip()]
    shown = "```sh\n" + "\n".join(lines) + "\n```" if lines else ""
    body = "\n\n".join(escape(" ".join(part.split()), quote=False) for part in words.strip().split("\n\n"))
    return f"{body}\n\n{shown}".rstrip()
