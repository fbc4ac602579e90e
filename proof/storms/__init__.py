"""Kills at any moment: real gateways, agents, tools and reporters, killed over and over while people and jobs go on.

Where `proof.crash` dies at each step of one script, these storms (the tests marked `storm`) die anywhere in many:
twenty producers that repeat themselves, jobs, schedules, deletions, model agents, every kind of channel. After each,
what was heard, said and shown is held against the books.
"""
