"""Readers of large documents for tests, which start no process until there is a large one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.document_readers import DocumentReaders
from fairlead.providers.answers import AnswerDecoder


def document_readers() -> DocumentReaders:
    """Return readers of one process."""
    return DocumentReaders(1, lambda _: None)


@asynccontextmanager
async def answer_reader() -> AsyncIterator[AnswerDecoder]:
    """Read partners' answers, and end the process that read large ones."""
    readers = document_readers()
    try:
        yield AnswerDecoder(readers)
    finally:
        await readers.close()
