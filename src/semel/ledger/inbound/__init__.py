"""What is heard: events, batches of channels, commands, answers, delivery reports, firings of schedules."""
