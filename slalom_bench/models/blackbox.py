"""Models that answer and show nothing else: a chat endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_bench.core.options import Availability, ModelOptions
from slalom_bench.core.parameters import Count, Positive
from slalom_bench.errors import InvalidInput
from slalom_bench.models.base import cache_root
from slalom_bench.registry import model

if TYPE_CHECKING:
    from slalom_bench.core.types import TaskData
    from slalom_bench.handle.backend import Backend


@model("openai", version=1, family="black box", argument="model")
class OpenAI:
    """`openai:MODEL`: a chat model behind --base-url, by the log-probabilities of its label words.

    Answers are cached; it has neither gradients nor attentions.

    Choose it:
        For a model that only answers requests. Each query is a request: begin with `--samples 2 --budget 50`, which
        asks at most 2 x 50 = 100 times for each explainer, and more for the metrics.

    Example:
        The first word of its answer is positive with log-probability -0.22 and negative with -1.61: the log-odds of
        positive are -0.22 + 1.61 = 1.39, its probability is 0.8.

    Args:
        model: the endpoint's name of the model.
        concurrency: how many requests may be under way at once.
        timeout: of one request, in seconds.
        attempts: how often a request is tried.
    """

    def __init__(self, model: str = "", concurrency: Count = 8, timeout: Positive = 60.0, attempts: Count = 6) -> None:
        self.model = model
        self.concurrency = concurrency
        self.timeout = timeout
        self.attempts = attempts

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """Sends nothing yet, but says what the cap allows it to cost."""
        from slalom_bench.backends.endpoint import Limits
        from slalom_bench.backends.openai_backend import OpenAIBackend

        backend = OpenAIBackend(
            str(self.model),
            task.class_names,
            base_url=options.base_url,
            cache=cache_root(),
            concurrency=self.concurrency,
            limits=Limits(options.max_requests, timeout=self.timeout, attempts=self.attempts),
        )
        some = [backend.tokens.encode(example.text)[0] for example in task.evaluation[:50]]
        cost = backend.estimate(backend.endpoint.max_requests, some)
        options.say(
            f"{backend.name}: at most {cost['requests']:,} requests (--max-requests), about {cost['prompt_tokens']:,} "
            f"prompt tokens and {cost['completion_tokens']:,} completion tokens; answers in the cache are free"
        )
        return backend

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Whether an address is given; nothing is sent to it."""
        from slalom_bench.backends.endpoint import checked_endpoint

        try:
            return Availability("built-in", f"behind {checked_endpoint(options.base_url)}")
        except InvalidInput as error:
            return Availability("unavailable", str(error))
