"""From a claim to a receipt: claims, their parts and the states of these, placeholders, notices of failures."""
