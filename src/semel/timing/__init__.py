"""Pure calculations with time: schedules, wall times and durations. They never read a clock."""
