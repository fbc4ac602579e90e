"""`semel chat`: a session in a terminal, full screen (`app`) or line by line (`lines`)."""
