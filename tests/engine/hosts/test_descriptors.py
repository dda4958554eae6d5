"""Counting the descriptors of a process."""

import os
import resource

from fairlead.engine.hosts.template import open_descriptors


def test_count_grows_with_what_is_leaked_and_shrinks_again() -> None:
    """Each descriptor that stays open counts once the gaps below it are filled."""
    opened = [os.dup(2) for _ in range(64)]
    try:
        before = open_descriptors()
        opened += [os.dup(2) for _ in range(64)]
        assert open_descriptors() == before + 64
    finally:
        for descriptor in opened:
            os.close(descriptor)
    assert open_descriptors() < before


def test_process_without_a_free_descriptor_has_as_many_as_it_may() -> None:
    """Nothing can be opened to count with."""
    bounds = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors(), bounds[1]))
    try:
        assert open_descriptors() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, bounds)
