"""What reads bytes from outside, under coverage-guided fuzzing: nothing raises but what it documents, nothing is lost.

Each module of `targets` is one reader: `one(data)` reads the bytes the way the product does, and asserts what must hold
of any bytes: no exception but the documented ones, what cannot be read is kept as it came, the same bytes in other
pieces mean the same, what is written can be read back, and no input takes long. `SEEDS` are its first inputs.

atheris (libFuzzer) drives each target in a process of its own and prefers inputs that reach new code; schemathesis
does the same to the OpenAPI document of a running gateway. A finding is a file; one command replays it:

    python -m proof fuzz TARGET --replay FILE
"""
