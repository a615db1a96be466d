"""From run directories to reports, submissions and leaderboards."""
