"""`python -m leanformer`."""

from leanformer.cli import main

main()
