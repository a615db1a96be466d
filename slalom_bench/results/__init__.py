"""From stored rows to statements: reading, statistics, submissions, boards, verification, comparison."""
