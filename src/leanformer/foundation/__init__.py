"""What everything else stands on: registries, records, and the machine with its processes."""
