"""Model APIs on the loopback address that say what a script tells them: no test of ours needs a real model."""
