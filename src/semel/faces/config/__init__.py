"""Configuration: turns semel.toml, the environment and the command line into plain settings.

    locate(...)            finds the data directory and the ledger, which most commands need; reads no secrets and
                           checks no other settings
    locate_to_read(...)    the same for commands that only read: with --data-dir, also if the file cannot be read
    locate_running(...)    finds the data directory of the gateway to ask, also if the file cannot be read any more
    load.load_config(...)  reads and checks everything, for `semel up`
    load.load_limits(...)  reads [limits] alone; no secrets, either. load.load_retention(...): what is kept for how long

A test checks that docs/configuration.md matches the settings.
"""

from semel.faces.config.paths import locate, locate_running, locate_to_read
from semel.faces.config.problems import ConfigError

__all__ = ["ConfigError", "locate", "locate_running", "locate_to_read"]
