"""`python -m semel` is `semel`."""

from semel.faces.start import main

if __name__ == "__main__":
    main()
