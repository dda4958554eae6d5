"""`python -m fairlead.moderation --fd N --memory BYTES CALLABLE`: a moderator. A server starts it, and asks it."""

import argparse

from fairlead.moderation.program import main


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fairlead.moderation", description="Judges bytes for a server.")
    parser.add_argument("--fd", type=int, required=True, help="the open socket to the server")
    parser.add_argument("--memory", type=int, default=0, help="the bytes of memory it may take; 0 is no limit")
    parser.add_argument("callable", help="module:function, or path.py:function")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    main(given.fd, given.memory, given.callable)
