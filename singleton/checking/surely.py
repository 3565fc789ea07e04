"""The rules whose findings are errors: it will fail, or is surely wrong.

Each has an id, what happens in Azure, what to do, and the page below ``docs`` that says more.
"""

from __future__ import annotations

from typing import Final

ERRORS: Final = (
    (
        "host-json",
        "The Functions host can't read host.json, so it does not start.",
        "Correct the file at the line that the message names.",
        "reference.md",
    ),
    (
        "option-refused",
        (
            "An option of the section `singleton` has a name or a value that is not allowed, so no guarded "
            "function runs."
        ),
        'Write the option as the list of options has it. Durations are texts, such as `"00:00:30"`.',
        "options.md",
    ),
    (
        "function-timeout-refused",
        "`functionTimeout` has a value with which the Functions host does not start.",
        'Give a time span such as `"00:10:00"`: at least a second, and at most 10 minutes on Consumption.',
        "operations.md#functiontimeout-and-workers-that-are-killed",
    ),
    (
        "queue-option-refused",
        "An option of `extensions.queues` has a value with which the Functions host does not start.",
        "Give a value in the range that the message names.",
        "operations.md#messages-that-come-back-too-soon",
    ),
    (
        "declaration-refused",
        (
            "A declaration has an argument that is not allowed, or two that do not go together. In Azure each "
            "invocation of the function fails."
        ),
        "Do what the message says.",
        "reference.md",
    ),
    (
        "unknown-argument",
        "`@singleton`, `@once` or `OldLock` has no such argument. The app does not import, so no function of it runs.",
        "Write the argument as the message says.",
        "options.md",
    ),
    (
        "function-refused",
        (
            "The Python worker or the Functions host refuses the function. If the worker refuses one, all "
            "functions of the app are lost."
        ),
        "Correct the signature or the bindings as the message says.",
        "fake-host.md",
    ),
    (
        "no-function",
        "All functions of the app belong to blueprints that are not registered. The Functions host finds none.",
        "Call `app.register_functions(blueprint)` in the app's script.",
        "reference.md",
    ),
    (
        "names-differ-by-case",
        "Two functions have the same name, or names that differ by case only. The Functions host does not start.",
        "Rename one of them; `name=` keeps its lock.",
        "how-to/names.md",
    ),
    (
        "skip-on-http",
        (
            'An HTTP trigger must answer. `on_contention="skip"` ends the invocation without an answer, so the '
            "function refuses every call."
        ),
        'Use `"wait"` or `"raise"`; or ask for the lock in the function, and answer 409.',
        "triggers.md#policies",
    ),
    (
        "none-for-output",
        (
            "The function's return value goes to an output that can't be None. An invocation that is skipped, "
            "deferred or left to the listener has none, so the function refuses such an invocation, or fails."
        ),
        'Give the output a parameter of its own (`func.Out`), or use `"wait"` or `"raise"`.',
        "triggers.md#policies",
    ),
    (
        "defer-on-trigger",
        'Only messages of a storage queue can be put back. On any other trigger `"defer"` fails each invocation.',
        'Use `"wait"`, `"skip"` or `"raise"`.',
        "how-to/defer.md",
    ),
    (
        "defer-without-trigger",
        '`"defer"` needs to know the queue, and the guard does not see its trigger. Each invocation fails.',
        "Put `@singleton` above the trigger's decorator.",
        "how-to/defer.md",
    ),
    (
        "defer-without-message",
        (
            '`"defer"` needs the message with its id and receipt, and the parameter is declared as something '
            "else. Each invocation fails."
        ),
        "Annotate the parameter as `func.QueueMessage`.",
        "how-to/defer.md",
    ),
    (
        "durable-replay",
        "The code of an orchestrator or entity runs again at each replay, so it can't hold a lock.",
        "Guard the activities that it calls, or start it with `start_singleton`.",
        "durable.md",
    ),
    (
        "generator-function",
        (
            "The guarded function has a `yield`. A call of it runs nothing of its body, and the worker can't use "
            "what it returns. Each invocation fails."
        ),
        "Return a value, or a list. Only with a queue or Event Grid output as `$return` may it yield.",
        "triggers.md#policies",
    ),
    (
        "listener-of-the-host",
        (
            'With `layout="webjobs"` the lock of a timer\'s listener is the one that the Functions host itself '
            "holds. The function would never run."
        ),
        'Leave `mode="listener"` out, or set `hostId` to the id of the other app.',
        "layouts.md",
    ),
    (
        "scope-on-timer",
        "A timer has no payload, so there is nothing to look the scope up in. Each invocation fails.",
        "Leave `scope` out, or use `scope_id` with text and `%SETTING%`.",
        "triggers.md",
    ),
    (
        "scope-on-batch",
        "The trigger delivers a list, and one lock can't stand for many messages. Each invocation fails.",
        'Set `cardinality="one"` (Cosmos DB: `max_items_per_invocation=1`), or leave the scope out.',
        "triggers.md",
    ),
    (
        "scope-is-template",
        "`scope` is the path of a property, and this value is a template. No body has a property of that name.",
        "Write `scope_id=` in place of `scope=`, or the bare path: `Order:Id`.",
        "triggers.md",
    ),
    (
        "scope-is-literal",
        (
            "`{{` and `}}` in `scope_id` or `key` stand for the braces themselves. So all messages have the same text "
            "there, and share a lock; with `@once` later messages count as done."
        ),
        "Write the placeholder with single braces: `{Id}`.",
        "triggers.md",
    ),
    (
        "setting-unset",
        (
            "An app setting that `%NAME%` asks for is not set. With a scope each invocation fails; in a trigger "
            "the host does not run the function."
        ),
        "Set it, or correct the name.",
        "deploy.md",
    ),
    (
        "connection-unset",
        (
            "There is no app setting for a connection. With a lock each invocation fails; with a trigger the host"
            " does not run the function."
        ),
        "Set it to a connection string, or set `NAME__accountName` to use an identity.",
        "deploy.md",
    ),
    (
        "connection-wrong",
        "The setting of a connection is there, and can't be used. Each invocation fails.",
        "Correct the setting as the message says. Its value is never shown.",
        "deploy.md",
    ),
    (
        "lock-name-refused",
        "The declaration names no lock: its scope, name or host id can't stand in the name of a blob.",
        "Do what the message says.",
        "how-to/names.md",
    ),
    (
        "old-lock-is-the-same",
        "`also=` names the lock that the function has anyway. Each invocation fails.",
        "Say in `OldLock(…)` what was different before, or leave `also=` out.",
        "how-to/rename.md",
    ),
)
"""In the order in which the documentation has them."""
