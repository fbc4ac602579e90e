"""Incoming events: channel batches, commands, answers, delivery reports, schedule firings, and the sources of nodes."""
