"""The contract that every explainer keeps, the rules it is tried by, and the files a contributor begins with."""
