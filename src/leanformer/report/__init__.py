"""Tables and figures, drawn from records: nothing here computes a result."""
