"""`python -m fairlead.engine.hosts --fd N --forks N`: an engine process. A server has the other ends of two sockets."""

import argparse

from fairlead.engine.hosts.program import main


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fairlead.engine.hosts", description="Executes nodes for a server.")
    parser.add_argument("--fd", type=int, required=True, help="the open socket to the server")
    parser.add_argument("--forks", type=int, required=True, help="the open socket over which it is told to fork")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    main(given.fd, given.forks)
