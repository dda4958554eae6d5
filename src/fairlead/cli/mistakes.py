"""Errors that an operator can fix, each as a line that says how."""

from collections.abc import Mapping
from typing import Final

import click

from fairlead.domain.accounts.key_terms import BadTermsError
from fairlead.domain.days import NotADateError
from fairlead.domain.declarations import BadFileError
from fairlead.domain.ledger.budgets import NoBudgetError
from fairlead.domain.ledger.money import NotAnAmountError
from fairlead.domain.ledger.usage import BadUsageQueryError
from fairlead.domain.time_zones import NotATimeOfDayError
from fairlead.observing.traces import TracesUnavailableError
from fairlead.operations.accounts.invitations import (
    NotMailedError,
    TooManyInvitationsError,
    UnknownInvitationError,
)
from fairlead.operations.accounts.keys import UnknownKeyError
from fairlead.operations.accounts.members import (
    BadMemberError,
    EmailTakenError,
    LastOperatorError,
    UnknownMemberError,
    UnprovenAddressError,
)
from fairlead.operations.accounts.personal_keys import TooManyKeysError, UnknownPersonalKeyError
from fairlead.operations.accounts.rate_limits import BadLimitError, TooManyLimitsError, UnknownLimitError
from fairlead.operations.accounts.workspaces import (
    BadNameError,
    BalanceBoundError,
    CreditKeyUsedError,
    NameTakenError,
    UnknownWorkspaceError,
)
from fairlead.operations.catalog import UnknownModelError
from fairlead.operations.data_copy import CopyRefusedError
from fairlead.operations.ledger.alerts import BadChannelError, UnknownChannelError
from fairlead.operations.ledger.archives import (
    ArchiveFileError,
    ArchiveMismatchError,
    ArchiveTakenError,
    BadArchiveDateError,
    CorrectedMeanwhileError,
)
from fairlead.operations.ledger.budgets import (
    BadBudgetError,
    BudgetTakenError,
    TooManyAdditionsError,
    TooManyBudgetsError,
    UnknownAdditionError,
    UnknownBudgetError,
)
from fairlead.operations.ledger.corrections import NotRefundableError
from fairlead.operations.ledger.rerates import NotRerateableError
from fairlead.operations.ledger.statements import UnknownRunError
from fairlead.server.installation import DataDirectoryError, OldDatabaseError
from fairlead.server.settings import BadSettingError
from fairlead.storage.db.database import DatabaseUnavailableError
from fairlead.storage.db.migrate import LiveServersError, NewerDatabaseError

_LINES: Final[Mapping[type[Exception], str]] = {
    ArchiveFileError: "{}",
    CorrectedMeanwhileError: "runs that are being archived were just corrected; try again in ten minutes",
    NotRefundableError: "the run cannot be refunded: {}",
    NotRerateableError: "the run cannot be re-rated: {}",
    ArchiveMismatchError: "{} differs from what was archived; it was not deleted: look at it with `fairlead audit`",
    ArchiveTakenError: "another `fairlead archive` works on this database; try again when it has ended",
    BadArchiveDateError: "{}",
    BadBudgetError: "{}",
    BadChannelError: "{}",
    BadFileError: "{}",
    BadLimitError: "{}",
    BadNameError: "{!r} is not a name for a workspace: use up to 64 of a-z, 0-9, dots, dashes and underscores",
    BadSettingError: "{}",
    BalanceBoundError: "no credit may take a balance beyond {} dollars",
    BadUsageQueryError: "{}",
    BudgetTakenError: "there is a budget of this subject and period already; `fairlead budgets list` shows it",
    BadMemberError: "{}",
    BadTermsError: "{}",
    EmailTakenError: "a member has the e-mail address {} already",
    LastOperatorError: "this is the last operator: make another member one first",
    TooManyKeysError: "the member has as many keys as there may be; revoke one first",
    UnknownMemberError: "there is no member {}, or none there; `fairlead members list` shows them",
    NotMailedError: "the mail server has not taken the invitation: {}; try again, or add --by-hand",
    TooManyInvitationsError: "the workspace has {} open invitations, as many as it may; withdraw some first",
    UnknownInvitationError: "there is no such invitation; `fairlead members invitations` shows them",
    UnprovenAddressError: "nobody has proven to hold the address {}: whoever has its keys gets this; add --unproven",
    UnknownPersonalKeyError: "the member has no key {}; `fairlead members keys` shows them",
    CreditKeyUsedError: "another amount, or another reason, was booked with this reference",
    CopyRefusedError: "{}",
    DataDirectoryError: "{}",
    DatabaseUnavailableError: "the database (--database or FAIRLEAD_DATABASE) cannot be used: {}",
    LiveServersError: "{}",
    NewerDatabaseError: "{}",
    NameTakenError: "a workspace named {} exists already",
    NoBudgetError: "this key has no budget yet; give --budget as well",
    NotADateError: "{}",
    NotATimeOfDayError: "{}",
    NotAnAmountError: "{}",
    OldDatabaseError: "{}",
    TooManyAdditionsError: "{} additions to the budget are in force, as many as it may have; withdraw some first",
    TooManyBudgetsError: "the workspace has {} budgets already, as many as it may",
    TooManyLimitsError: "the workspace has {} limits of requests already, as many as it may",
    TracesUnavailableError: "{}",
    UnknownAdditionError: "the budget has no addition {}; `fairlead budgets list --json` shows them",
    UnknownBudgetError: "this workspace has no budget with the id {}; `fairlead budgets list` shows them",
    UnknownChannelError: "this workspace has no alert channel {}; `fairlead alert-channels list` shows them",
    UnknownKeyError: "there is no living key with the id {}; `fairlead keys list` shows them",
    UnknownLimitError: "this workspace has no limit with the id {}; `fairlead rate-limits list` shows them",
    UnknownModelError: "{}",
    UnknownRunError: "there is no run with the id {}; `fairlead runs list` shows them",
    UnknownWorkspaceError: "there is no workspace {}; `fairlead workspaces list` shows them",
}


def hide_arguments(error: click.UsageError) -> click.UsageError:
    """An error about too many arguments, which does not repeat them: a secret meant for standard input may be one."""
    if error.message.startswith("Got unexpected extra argument"):
        words = "There are more arguments than this command takes; a secret is read from standard input."
        return click.UsageError(words, error.ctx)
    return error


def explanation(error: Exception) -> str | None:
    """The line that explains an error to an operator; None for a bug."""
    line = next((line for kind, line in _LINES.items() if isinstance(error, kind)), None)
    return None if line is None else line.format(str(error))
