"""Is the installation all right? What `semel doctor`, `semel config check` and `semel status` look at."""
