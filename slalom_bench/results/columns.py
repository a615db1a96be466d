"""What the metrics of a board are: as the registered ones declare it, and where none is, as all files say."""

from __future__ import annotations

from collections.abc import Iterable

from slalom_bench import registry
from slalom_bench.results.submission import MetricInfo, Submission
from slalom_bench.running.identity import MetricLabel

DECLARED = ("direction", "headline", "level", "scale")
"""What decides how a metric's values are read; files may leave out the scale."""


def contradicted(info: MetricInfo) -> list[str]:
    """What a file says otherwise of a metric than the one of that version that is registered here."""
    entry = registry.metrics.find(info.name)
    if entry is None or entry.version != info.version:
        return []
    pairs = [(name, getattr(info, name), getattr(entry, name)) for name in DECLARED]
    return [f"{name} is {said}, not {here}" for name, said, here in pairs if said not in (None, here)]


def columns(submissions: Iterable[Submission]) -> tuple[dict[MetricLabel, MetricInfo], dict[MetricLabel, list[str]]]:
    """The metrics in the order that they declare, and those left out: files disagree and none is registered here.

    Of metrics that are left out, the files of either opinion: which is right cannot be told without the metric.
    """
    said: dict[MetricLabel, dict[str, tuple[MetricInfo, str]]] = {}
    for submission in submissions:
        for label, info in submission.metrics.items():
            whole = _completed(info)
            opinion = repr([getattr(whole, name) for name in (*DECLARED, "relevant")])
            said.setdefault(label, {}).setdefault(opinion, (whole, submission.file_name))
    found, left_out = {}, {}
    for label, opinions in said.items():
        (first, _), *others = opinions.values()
        entry = registry.metrics.find(label.name)
        if not others:
            found[label] = first
        elif entry is not None:
            here = {name: getattr(entry, name) for name in (*DECLARED, "relevant")}
            found[label] = first.model_copy(update=here)
        else:
            left_out[label] = [f"{info.direction}, {info.headline} in {file}" for info, file in opinions.values()]
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0]))), left_out


def _completed(info: MetricInfo) -> MetricInfo:
    """What a file from before metrics declared a scale does not say, as the metric that is registered here says it."""
    entry = registry.metrics.find(info.name)
    if info.scale is not None or entry is None:
        return info
    return info.model_copy(update={"scale": entry.scale, "relevant": entry.relevant})
