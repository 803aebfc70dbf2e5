"""Families of timm models: one file per family, and what they share in `base`."""
