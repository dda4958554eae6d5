"""Readers of large documents for tests, which start no process until there is a large one."""

from fairlead.document_readers import DocumentReaders
from fairlead.providers.answers import AnswerReader


def document_readers() -> DocumentReaders:
    """Return readers of one process."""
    return DocumentReaders(1, lambda _: None)


def answer_reader() -> AnswerReader:
    """Return what reads partners' answers."""
    return AnswerReader(document_readers())
