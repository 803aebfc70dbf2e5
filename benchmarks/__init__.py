"""Speed, measured side by side in one process: `make bench`. Results are ratios of medians; no test depends on them."""
