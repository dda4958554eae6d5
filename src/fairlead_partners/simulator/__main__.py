"""Run the simulator: `python -m fairlead_partners.simulator --port 0`."""

from fairlead_partners.program import parser, run

from .app import build

CONNECTIONS_MAX = 20_000
TASK_SECONDS = 0.3


def main() -> None:
    """Parse the arguments and serve until told to stop."""
    arguments = parser("fairlead_partners.simulator", __doc__)
    arguments.add_argument("--task-seconds", type=float, default=TASK_SECONDS, help="how long a submitted task takes")
    given = arguments.parse_args()
    # Half an answer is an error to uvicorn; here it is a fault somebody asked for.
    run(
        build(task_seconds=given.task_seconds),
        given,
        lifespan="on",
        log_level="critical",
        limit_concurrency=CONNECTIONS_MAX,
    )


if __name__ == "__main__":
    main()
