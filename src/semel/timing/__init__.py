"""Pure calculations with time: schedules, wall times, pauses between attempts. No clock."""
