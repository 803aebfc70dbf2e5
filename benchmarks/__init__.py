"""Speed, measured side by side in one process on this machine: `make bench`. Ratios of medians, never a timed test."""
