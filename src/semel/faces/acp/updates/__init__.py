"""Write what happens in a session as ACP v1 updates, and nothing twice: pure code, with and without a gateway."""
