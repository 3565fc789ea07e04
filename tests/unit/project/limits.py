"""The limits of size and of names, and the exceptions with their reasons. One that is not needed is an error."""

from __future__ import annotations

from typing import Final

MODULE_LINES: Final = 500
FUNCTION_LINES: Final = 70

LONG_MODULES: Final[dict[str, str]] = {}
LONG_FUNCTIONS: Final = {
    "singleton/decorator.py:singleton": "the arguments that users see, each with its meaning in the docstring",
}

MODULES_TWICE: Final = {
    "singleton": {
        "holder": "the record that users get, and the reading of the record from a blob",
        "protocol": "the contract of each side: stores for locks, logs for inboxes",
    },
}
CLASSES_TWICE: Final = {
    "singleton": {
        "Entry": "a message in a log, and the place of a caller inside a lock: private to two rooms far apart",
        "Outcome": "what became of an operation, and of a visit to a key: private to two patterns",
        "Signature": "the parameters of a function, and the signature of a request: the words of two standards",
    },
    "simulator": {
        "Finding": "what `check` finds in an app, and what the verdict finds in a run: both are public words",
        "Run": "a run of a virtual world, and a run of a user's function that a witness sees",
        "_Invocation": "what one module of the oracle notes of an invocation, private to each",
        "_Reader": "reads one format, private to each of two modules",
        "_Runner": "runs the bodies of one workload, private to each of two modules",
        "_Sent": "a request that was sent, private to each of two modules",
    },
}
