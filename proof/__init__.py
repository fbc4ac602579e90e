"""The proof, for anyone to run: `make prove` (complete, under an hour on two cores), `make prove-quick` (a sample).

Each part is a folder with a `main.py` that offers `options(parser)` and `prove(quick, args)`. docs/proof.md says what
was run, with counts, and what is not proven.
"""
