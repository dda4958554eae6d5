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

    @property
    def widest(self) -> Policy:
        """The policy of the process from which hosts of all kinds are forked: it loads no pack."""
        return self.closed if self.opened is None else self.opened

    def of(self, packs: Collection[str]) -> Policy:
        """The policy of a host with some packs."""
        titles = {title_of(name) for name in packs}
        is_granted = packs and (EVERY_PACK in self.networked or titles <= set(self.networked))
        return self.opened if is_granted and self.opened is not None else self.closed

    def narrow(self, packs: Collection[str], folder: str) -> Policy:
        """The policy of a process that loads some packs in a folder of its own; it has begun with the widest policy.

        Hosts are forked from it. Its filter was installed already, unless it differs.
        """
        policy = self.of(packs)
        syscalls = b"" if policy is self.widest else policy.syscalls
        return msgspec.structs.replace(policy, writable=(folder,), syscalls=syscalls, is_forked=True)
