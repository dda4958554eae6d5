"""Run the vendor: `python -m fairlead_partners.procedural --port 0`."""

import os

from fairlead_partners.program import parser, run

from .app import App


def main() -> None:
    """Parse the arguments, serve until told to stop, and leave no file behind."""
    arguments = parser("fairlead_partners.procedural", __doc__).parse_args()
    # Two generations run at once already; a pool of threads inside each would only make them fight.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app = App(os.environ.pop("PROCEDURAL_TOKEN", None) or None)
    try:
        run(app, arguments)
    finally:
        app.close()
    # A generation still running in a thread has nobody waiting for it, and the interpreter would.
    os._exit(0)


if __name__ == "__main__":
    main()
