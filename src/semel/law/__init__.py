"""The laws as pure code: no clock, no randomness, no await, no SQL, no files. Times and ids are arguments."""
