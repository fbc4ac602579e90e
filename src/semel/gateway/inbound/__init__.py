"""What comes in: channels are supervised, messages are judged, recorded and handed to the scheduler of turns."""
