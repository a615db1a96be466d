"""What is said of an explanation is true of the method at hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slalom_bench import Classifier, Example, Explanation, registry
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.showing.meaning import meanings, quality


def explained(name: str) -> Explanation:
    classifier = Classifier(bag_of_words({"good": 2.0, "film": 0.0, "dull": -1.0}, specials=True))
    sample = classifier.encode(Example("1", "good film dull good film"))
    with classifier.work(60):
        return registry.explainers.build(name).explain(classifier, sample, 60, np.random.default_rng(0))


def test_a_process_is_not_called_a_slalom_and_its_interpolation_is_no_quality():
    anchor, fidel = explained("slalom-anchor"), explained("slalom-fidel")
    assert "process" in meanings(anchor)["removal"]
    assert "anchor" in meanings(anchor)["value"]
    assert "fitted SLALOM" in meanings(fidel)["removal"]
    assert "anchor" not in meanings(fidel)["value"]
    assert "its own queries" not in quality(anchor)
    assert "where half of the text does" in quality(anchor)
    assert "its own queries" in quality(fidel)


def test_where_the_slalom_inside_a_process_carries_little_its_scores_are_said_to_say_little():
    anchor = explained("slalom-anchor")
    for share, said in (
        (0.5, "has 50 % of the mean square of it all"),
        (0.0026, "0.26 % of the mean square of it all, so"),
    ):
        parts = replace(anchor, diagnostics={**anchor.diagnostics, "parts": {"slalom": share}})
        assert said in quality(parts)
        assert ("value and importance say little here" in quality(parts)) == (share < 0.1)


def test_a_surrogate_that_misses_the_whole_text_says_by_how_much():
    exact = explained("slalom-exact")  # read off one and two tokens: no SLALOM is a bag of words
    whole = float(exact.surrogate.predict(np.ones((1, len(exact)), bool))[0])
    truth = 2 * 2.0 - 1.0
    assert abs(whole - truth) > 0.5
    assert quality(exact, truth) == f"of the whole text it says {whole:+.2f}, the model +3.00"
    assert "whole text" not in quality(explained("leave-one-out"), truth)
    assert "whole text" not in quality(exact)


def test_other_methods_say_what_they_know_and_no_more():
    assert meanings(explained("lime")) == {}
    assert "% of the variance" in quality(explained("lime"))
    assert quality(explained("leave-one-out")) == ""
    failed = Explanation({"x": [1.0]}, "x", 1, diagnostics={"converged": False})
    assert quality(failed) == "it did not converge"
