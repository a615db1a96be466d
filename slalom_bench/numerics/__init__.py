"""The mathematics: fits, Shapley values, relevance propagation, statistics. Arrays in, arrays out."""
