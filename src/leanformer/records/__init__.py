"""Typed, versioned records: the files that results live in.

A kind of record is one class beside the code that makes it; `KINDS` lists them all. `base` has what they share, `files`
the one reader and the one writer of JSON, `circumstances` the command, the commit and the machine.
"""
