"""What an HDFS cluster refuses or does not answer, in plain words.

hdfs-native raises FileNotFoundError and FileExistsError where they are meant, OSError where a connection fails, and for all
else that a NameNode or DataNode says a RuntimeError with the name of its Java class.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from etc_policy.adapters.storage.port import StoreRefusedError, StoreUnreachableError
from etc_policy.codes.registry import Code

_RPC = re.compile(r"(?:Fatal)?RPCError\(\"(?P<name>[\w.$]+)\", \"(?P<words>.*)", re.DOTALL)
#: A NameNode's words end where its stack begins.
_STACK = re.compile(r"\\n|\n")
#: What a cluster says while it starts, fails over or has lost machines; and what the client says of a connection.
_AWAY = re.compile(
    r"SafeMode|StandbyException|RetriableException|ObserverRetryOnActiveException|RetryStartFileException|LeaseExpired"
    r"|NotReplicatedYet|minReplication|IOError\(|OperationFailed\(|BlocksNotFound|DataTransferError|Timeout"
)
_NOT_A_FOLDER = ("ParentNotDirectoryException", "PathIsNotDirectoryException")
_MAX_WORDS = 400


@contextmanager
def hdfs_errors(location: str, path: str = "") -> Iterator[None]:
    """Whatever hdfs-native raises, as OSError; FileNotFoundError and FileExistsError where they are meant.

    Raises:
        StoreUnreachableError: another try may succeed.
        StoreRefusedError: it will not.

    """
    place = f"{location}/{path}".rstrip("/")
    try:
        yield
    except (StoreUnreachableError, StoreRefusedError):
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", place) from error
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, "the file exists", place) from error
    except (OSError, RuntimeError, NotImplementedError) as error:
        raise _as_store_error(error, location, place) from error


def unanswered(location: str, words: str) -> StoreUnreachableError:
    """The error to raise where a cluster does not answer."""
    hint = "run it again; if it goes on, check the NameNode's address in `table`, or HADOOP_CONF_DIR for a nameservice"
    message = f"the HDFS cluster of `{location}` does not answer"
    return StoreUnreachableError(Code.HDFS_UNREACHABLE, message, hint=hint, cause=words)


def _as_store_error(error: Exception, location: str, place: str) -> OSError:
    found = _RPC.match(str(error))
    name, words = (found["name"].rpartition(".")[2], found["words"]) if found else ("", str(error))
    said = _STACK.split(words)[0].replace('\\"', '"')[:_MAX_WORDS]
    if name in _NOT_A_FOLDER:
        return NotADirectoryError(errno.ENOTDIR, "there is a file where a folder is needed", place)
    forbidden = name == "AccessControlException"  # its words name the folder, which may be called anything
    if isinstance(error, OSError) or (not forbidden and _AWAY.search(f"{name} {said}")):
        return unanswered(location, said)
    if forbidden:
        hint = "check the permissions there, and as which user `etc` acts: HADOOP_USER_NAME, or the Kerberos ticket"
    else:
        hint = "look at the cluster's own words below the error"
    message = f"the HDFS cluster of `{location}` refuses a request"
    return StoreRefusedError(Code.HDFS_REFUSES, message, hint=hint, cause=f"{name}: {said}".removeprefix(": "))
