"""What a design costs: closed forms, traced training steps, and whole runs."""
