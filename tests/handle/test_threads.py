"""One thread for numpy's algebra while a model is queried."""

from __future__ import annotations

from functools import cache

from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.handle.classifier import Classifier


@cache
def backend(architecture: str) -> HFBackend:
    return random_backend(architecture)


def test_numpy_has_one_thread_inside_a_piece_of_work_and_its_own_again_after_it():
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    classifier = Classifier(backend("bert"))
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with classifier.work(), classifier.work():
            assert set(threads()) == {1}
        assert threads() == before
        first, second = classifier.work(), classifier.work()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before
