"""Three gateways on one PostgreSQL database, while gateways, connections and the server die, hang and come back.

What was accepted is answered once, in its order; no platform gets a text under two keys, or twice where it folds
nothing; somebody is active again in time.
"""
