"""Leaner designs: what is tried, what speaks against a design, and which one to try first."""
