"""From a claim to its receipt: claims, parts and their states, placeholders, and notices about failures."""
