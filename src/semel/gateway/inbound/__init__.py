"""Receive events: supervise channels, decide who may speak, record events, execute commands, and wake turns."""
