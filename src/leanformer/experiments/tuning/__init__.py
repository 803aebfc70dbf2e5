"""Settings tuned for every arm alike, on seeds and samples that no verdict sees."""
