"""What everything else is made of: records, seeds, hashes, references, tokens, id sequences."""
