"""Between one editor and one agent, without a gateway (`semel acp --alone`)."""
