"""From a claim to a receipt: what is said, the parts it leaves in, their states, notices of failures."""
