"""The mathematics: masks, design matrices, fits, Shapley values, correlations. Arrays in, arrays out."""
