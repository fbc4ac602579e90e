"""Configuration: semel.toml, the environment and the command line, made into plain settings.

    locate(...)     where the gateway's data is: what most commands need (reads no secrets, judges nothing else)
    load.load(...)  everything, checked: what `semel up` runs on

Every setting is documented in docs/configuration.md; a test holds the two together.
"""

from semel.faces.config.places import locate
from semel.faces.config.problems import ConfigError

__all__ = ["ConfigError", "locate"]
