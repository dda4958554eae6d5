"""The order in which a call of a model is refused: docs/router.md prints this list, and a test compares the two.

The check of an earlier row precedes those of later rows, so the first refusal is the answer. The stages are decided in:

- CALLER: `operations/accounts/authenticate.py`, `operations/runs/places.py`, `operations/accounts/rate_windows.py`
- HEADERS: `requests.CallChecks.check_headers`
- BODY: the entrance, which reads the body and waits for places
- CONTENT: `requests.CallChecks.check_content`, with what `admit.py` knows of money, prices and keys
- ENTRY: the transaction that records the run (`storage/runs/entries.py`)
"""

import enum
from typing import Any, Final, NamedTuple

from fairlead.domain.faults import (
    BodyTooLarge,
    BudgetExceeded,
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    Forbidden,
    InputRejected,
    InsufficientCredits,
    InvalidInput,
    KeyConflict,
    ModelNotFound,
    NotEnabled,
    RateLimited,
    ServiceUnavailable,
    StillRunning,
    TooManyValues,
    Unauthorized,
)


class Stage(enum.Enum):
    """The stages of a call, in their order."""

    CALLER = "caller"
    HEADERS = "headers"
    BODY = "body"
    CONTENT = "content"
    ENTRY = "entry"


class Check(NamedTuple):
    """A condition that a call must meet, and the faults of a call that does not."""

    stage: Stage
    condition: str
    faults: tuple[type[Any], ...]


ORDER: Final = (
    Check(Stage.CALLER, "there is a credential, and it is well-formed", (Unauthorized,)),
    Check(Stage.CALLER, "it is a key or token that is good", (Unauthorized, Forbidden, ServiceUnavailable)),
    Check(
        Stage.CALLER,
        "the server is not under pressure, or the workspace has less than its share",
        (ServiceUnavailable,),
    ),
    Check(Stage.CALLER, "no quota of requests is spent, nor the limit of the API key", (RateLimited,)),
    Check(Stage.HEADERS, "the router is enabled for the workspace", (NotEnabled, ServiceUnavailable)),
    Check(Stage.HEADERS, "the model exists and is not retired", (ModelNotFound,)),
    Check(Stage.HEADERS, "workspace and credential are entitled to the model", (Forbidden,)),
    Check(Stage.HEADERS, "the query has values the route knows", (InvalidInput,)),
    Check(
        Stage.HEADERS,
        "without `model_provider`: the model's provider is enabled for the workspace, then allowed by its policy",
        (NotEnabled, ServiceUnavailable, Forbidden),
    ),
    Check(Stage.BODY, "the content type is JSON", (InvalidInput,)),
    Check(
        Stage.BODY,
        "the body is within the cap and holds no more values than it may, and arrives within 120 seconds",
        (BodyTooLarge, TooManyValues, InvalidInput),
    ),
    Check(Stage.BODY, "the server has a place for the run, or gets one in time", (ServiceUnavailable,)),
    Check(Stage.BODY, "the idempotency key has 1 to 255 characters", (InvalidInput,)),
    Check(Stage.CONTENT, "the limit of runs of the model, where the workspace has one, is not spent", (RateLimited,)),
    Check(
        Stage.CONTENT,
        "a prepaid workspace has anything left, unless the idempotency key was used before",
        (InsufficientCredits,),
    ),
    Check(Stage.CONTENT, "the body is one strict JSON object", (InvalidInput,)),
    Check(Stage.CONTENT, "with `model_provider`: the six refusals above", ()),
    Check(
        Stage.CONTENT,
        "the body names no other model than the path, where its schema has a `model` field",
        (InputRejected,),
    ),
    Check(
        Stage.CONTENT,
        "the body satisfies the model's schema; "
        "in another provider's form, it has the fields its leg fixes and says nothing without a price",
        (InputRejected,),
    ),
    Check(Stage.CONTENT, "with `reject_unknown_fields`: the body has no other fields", (InputRejected,)),
    Check(Stage.CONTENT, "the earlier run that the body goes on with can be looked up", (ServiceUnavailable,)),
    Check(
        Stage.CONTENT,
        "the server has what the provider wants to be called with, or another leg may serve the run",
        (ServiceUnavailable,),
    ),
    Check(
        Stage.CONTENT,
        "a price is in force, and covers what a body in another provider's form asks for",
        (ServiceUnavailable, InputRejected),
    ),
    Check(Stage.CONTENT, "the workspace's own key can be opened, where it has one", (InvalidInput, ServiceUnavailable)),
    Check(Stage.ENTRY, "the run can be recorded", (ServiceUnavailable,)),
    Check(Stage.ENTRY, "the key was not revoked meanwhile", (Unauthorized,)),
    Check(Stage.ENTRY, "the idempotency key is new", (KeyConflict, StillRunning)),
    Check(Stage.ENTRY, "the workspace's runs are not blocked", (Forbidden,)),
    Check(Stage.ENTRY, "a slot is free, then one for costly runs where this is one", (ConcurrencyLimitExceeded,)),
    Check(Stage.ENTRY, "the cap on committed spend has room for the hold", (CommittedSpendExceeded,)),
    Check(Stage.ENTRY, "the funds cover the hold", (InsufficientCredits,)),
    Check(Stage.ENTRY, "every budget that it counts against covers it", (BudgetExceeded,)),
)
"""The order for a synchronous run; the queue and the estimate differ as docs/router.md says."""
