"""The limit on values, held without holding up the event loop."""

import asyncio
import time

from fairlead.documents.values import looking_for_more


class TooManyValuesError(Exception):
    """A document holds more values than it may."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The document holds more than {limit} values.")
        self.limit = limit


async def check_values(content: bytes, most: int) -> None:
    """Refuse a document of more than `most` values, before anything is made of it: TooManyValuesError.

    Others run while a large one is counted. A short one costs a comparison.
    """
    steps = looking_for_more(content, most)
    while True:
        began = time.perf_counter()
        try:
            next(steps)
        except StopIteration as ended:
            if ended.value:
                raise TooManyValuesError(most) from None
            return
        # For as long as the step took: a call of another waits for the event loop dozens of times.
        await asyncio.sleep(time.perf_counter() - began)
