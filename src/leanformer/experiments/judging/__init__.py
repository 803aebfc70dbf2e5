"""What scores allow to be said: intervals that stay valid while seeds are added, verdicts, and their error rates."""
