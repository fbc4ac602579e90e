"""One session that an editor has open, through the gateway: what it is shown, its prompts, its permission dialogs."""
