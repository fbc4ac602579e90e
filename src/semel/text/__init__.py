"""Pure text tools: code fences, tags and markup, splitting, normal forms, characters that cannot be seen."""
