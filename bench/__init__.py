"""Semel's benchmarks: `make bench`, or `python -m bench [NAME ...]`. Every rate stands beside a reference of the same run."""
