"""Errors, their codes, and text that is safe to print."""

from etc_policy.errors.exceptions import (
    PLAN_AGAIN as PLAN_AGAIN,
)
from etc_policy.errors.exceptions import (
    EngineError as EngineError,
)
from etc_policy.errors.exceptions import (
    EtcError as EtcError,
)
from etc_policy.errors.exceptions import (
    ExitCode as ExitCode,
)
from etc_policy.errors.exceptions import (
    Issue as Issue,
)
from etc_policy.errors.exceptions import (
    OvertakenError as OvertakenError,
)
from etc_policy.errors.exceptions import (
    PolicyError as PolicyError,
)
from etc_policy.errors.exceptions import (
    RetryableError as RetryableError,
)
from etc_policy.errors.exceptions import (
    SeveralErrors as SeveralErrors,
)
from etc_policy.errors.exceptions import (
    StalePlanError as StalePlanError,
)
from etc_policy.errors.exceptions import (
    TableError as TableError,
)
from etc_policy.errors.exceptions import (
    UsageError as UsageError,
)
from etc_policy.errors.exceptions import (
    VerdictError as VerdictError,
)
from etc_policy.errors.exceptions import (
    Where as Where,
)
from etc_policy.errors.exceptions import (
    first_line as first_line,
)
from etc_policy.errors.exceptions import (
    worst as worst,
)
