"""python -m mcpc: the same as the mcpc command."""

from mcpc.cli import main

if __name__ == "__main__":
    main()
