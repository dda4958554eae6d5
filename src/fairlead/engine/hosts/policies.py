"""What hosts may see, reach and use, by the node packs they have."""

from collections.abc import Collection
from typing import Final

import msgspec

from fairlead.domain.deployments import title_of
from fairlead.processes.confinement.cgroups import ControlGroups
from fairlead.processes.confinement.policy import Policy

EVERY_PACK: Final = "*"


class HostPolicies(msgspec.Struct, frozen=True):
    """The policies of a server's hosts, apart from their folders: without the network, and with it where some have it.

    A host has the network when each of its packs is `networked`; EVERY_PACK among these stands for all. `groups` is
    where control groups are made, if possible.
    """

    closed: Policy
    opened: Policy | None = None
    networked: Collection[str] = ()
    groups: ControlGroups | None = None

    def widest(self, folder: str) -> Policy:
        """The policy of the processes from which hosts of all kinds are forked: they load no pack.

        `folder` is the one below which these have their folders.
        """
        return msgspec.structs.replace(self._widest, writable=(folder,), is_forked=True)

    def of(self, packs: Collection[str]) -> Policy:
        """The policy of a host with some packs."""
        titles = {title_of(name) for name in packs}
        is_granted = packs and (EVERY_PACK in self.networked or titles <= set(self.networked))
        return self.opened if is_granted and self.opened is not None else self.closed

    def narrow(self, packs: Collection[str], folder: str) -> Policy:
        """The policy of a process that loads some packs in a folder of its own; it has begun with the widest policy.

        The filters of that are installed already.
        """
        policy = self.of(packs)
        filters = [one for one in policy.filters if one not in self._widest.filters]
        return msgspec.structs.replace(policy, writable=(folder,), filters=filters)

    @property
    def _widest(self) -> Policy:
        return self.closed if self.opened is None else self.opened
