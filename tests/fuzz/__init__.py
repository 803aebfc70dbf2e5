"""The permanent attacker: seeded, bounded attempts to make leanformer give a wrong answer, a traceback or a hang.

`python -m fuzz` (`make fuzz`) runs all of it and prints a table; `test_slice.py` runs a slice in `make test`.
"""
