"""Takes over the process that imports the pack, so that whatever is forked from it shares a pipe with all the others.

Each host writes into the pipe the workflows that it is given, and reads from it those that others were given.
"""

import os

from fairlead.engine.hosts.host import Host
from fairlead.engine.hosts.template import Template

_ENDS = []
_HIGH = 4_000
_fork, _take_over, _execute, _closerange = Template._fork, Template._take_over, Host.execute, os.closerange


def heard():
    """All that was written into the pipe since it was read last."""
    try:
        return os.read(_share()[0], 65_536).decode()
    except BlockingIOError:
        return ""


def _share():
    if not _ENDS:
        ends = os.pipe()
        _ENDS.extend(os.dup2(end, _HIGH + number) for number, end in enumerate(ends))
        for end in ends:
            os.close(end)
        for end in _ENDS:
            os.set_blocking(end, False)
    return _ENDS


def _forking(self):
    _share()
    _fork(self)


def _taking_over(self, *given):
    os.closerange = lambda *_: None
    _take_over(self, *given)
    os.closerange = _closerange


async def _executing(self, workflow, *others):
    try:
        os.write(_share()[1], bytes(workflow))
    except BlockingIOError:
        pass
    return await _execute(self, workflow, *others)


Template._fork, Template._take_over, Host.execute = _forking, _taking_over, _executing
