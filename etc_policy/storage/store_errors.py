"""What an object store refuses or does not answer, in plain words and without anything secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError, GenericError

from etc_policy.errors import EtcError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import one_line
from etc_policy.storage.port import BadNameError, StoreRefusedError, StoreUnreachableError

_STATUS = re.compile(r"status code: (\d{3})")
_CODE, _MESSAGE = re.compile(r"<Code>([^<]{1,100})</Code>"), re.compile(r"<Message>([^<]{1,300})</Message>")
#: A URL's query may hold a signature.
_QUERY = re.compile(r"\?[^\s\"')]+")
_TOO_MANY, _TIMED_OUT, _SERVER, _NOT_IMPLEMENTED = 429, 408, 500, 501
_BAD_NAME = "Encountered object with invalid path"
_CREDENTIALS = "check the keys, what they may do, and that this machine's clock is right"
_REGION = "check `storage.region` of the target, or AWS_REGION"


@contextmanager
def store_errors(location: str, path: str = "") -> Iterator[None]:
    """Whatever obstore raises, as OSError; FileNotFoundError for a missing file.

    Raises:
        StoreUnreachableError: another try may succeed.
        StoreRefusedError: it will not.

    """
    try:
        yield
    except FileNotFoundError as error:
        if _error_code(error) == "NoSuchBucket":
            raise as_store_error(error, location) from error
        raise FileNotFoundError(2, "there is no such object", f"{location}/{path}".rstrip("/")) from error
    except TimeoutError as error:
        raise _unanswered(location, str(error.strerror)) from error
    except (BaseError, PermissionError) as error:
        raise as_store_error(error, location) from error


def as_store_error(error: Exception, location: str) -> EtcError:
    """The error to raise for what obstore has raised."""
    if isinstance(error, StoreUnreachableError | StoreRefusedError):
        return error
    words = _words(error)
    if _error_code(error) == "NoSuchBucket":
        hint = "check its name where you gave it, and `table_root` and `storage.endpoint` of the target"
        return StoreRefusedError(Code.NO_BUCKET, f"there is no bucket for `{location}`", hint=hint, cause=words)
    if is_unanswered(error):
        return _unanswered(location, words)
    if _BAD_NAME in words:
        message = f"an object below `{location}` has a name that cannot be a path"
        hint = "remove it, or copy it to another name: parts of a path are not empty, `.` or `..`, and are printable"
        named = one_line(str(error).partition("\n\nDebug source")[0])[:400]
        return BadNameError(Code.STORE_REFUSES, message, hint=hint, cause=named)
    hint = _REGION if "redirect" in words.lower() else _CREDENTIALS
    message = f"the object store of `{location}` refuses a request"
    return StoreRefusedError(Code.STORE_REFUSES, message, hint=hint, cause=words)


def _unanswered(location: str, words: str) -> StoreUnreachableError:
    hint = "run it again; if it goes on, check `storage.endpoint` of the target and AWS_ENDPOINT_URL_S3"
    message = f"the object store of `{location}` does not answer"
    return StoreUnreachableError(Code.STORE_UNREACHABLE, message, hint=hint, cause=words)


def is_unanswered(error: Exception) -> bool:
    """Whether the store may have done what was asked, or may do it at another try."""
    if not isinstance(error, GenericError):
        return False
    text = str(error)
    found = _STATUS.search(text)
    if found is None:
        return "redirect" not in text[:500].lower()
    status = int(found[1])
    return status in (_TOO_MANY, _TIMED_OUT) or (status >= _SERVER and status != _NOT_IMPLEMENTED)


def is_cut_short(error: Exception) -> bool:
    """Whether a listing broke off in the middle of a page: obstore tries all else again by itself."""
    return "list response body" in str(error)


def is_empty_range(error: Exception) -> bool:
    """Whether a range was asked of an empty object, of which no store gives one."""
    return any(words in str(error) for words in ("status code: 416", "Invalid range"))


def _error_code(error: Exception) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _words(error: Exception) -> str:
    """What the store itself says; else what obstore says first."""
    text = str(error)
    said = [found[1] for found in (_CODE.search(text), _MESSAGE.search(text)) if found]
    return ": ".join(said) if said else _QUERY.sub("", text.strip().splitlines()[0])[:400]
