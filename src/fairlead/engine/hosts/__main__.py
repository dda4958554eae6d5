"""`python -m fairlead.engine.hosts --fd N`: an engine host. A server starts it, at the other end of a socket."""

import argparse

from fairlead.engine.hosts.program import main


def _descriptor() -> int:
    parser = argparse.ArgumentParser(prog="python -m fairlead.engine.hosts", description="Executes nodes for a server.")
    parser.add_argument("--fd", type=int, required=True, help="the open socket to the server")
    return int(parser.parse_args().fd)


if __name__ == "__main__":
    main(_descriptor())
