"""Every attack, in the order of docs/security.md."""

from typing import Final

from attacks import by_callers, by_packs, on_files, on_identity, on_secrets

ATTACKS: Final = (*by_callers.ATTACKS, *by_packs.ATTACKS, *on_files.ATTACKS, *on_identity.ATTACKS, *on_secrets.ATTACKS)
