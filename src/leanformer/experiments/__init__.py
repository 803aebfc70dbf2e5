"""What is compared, and what follows: recipes, arms, budgets, comparisons, sweeps, GLUE, verdicts, sentences."""
