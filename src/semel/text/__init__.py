"""Pure text tools: code fences, tags and markup, splitting, normal forms, invisible characters."""
