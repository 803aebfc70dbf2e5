"""Figures, one file for each kind of record; `style` has what they share."""
