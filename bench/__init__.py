"""Semel's benchmarks: `make bench`, or `python -m bench [NAME ...]`. Rates stand beside a reference of the same run."""
