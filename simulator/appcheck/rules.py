"""The rules of ``check``: the one list of what can be found. ``docs/how-to/check.md`` is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.appcheck.finding import Finding, Place

if TYPE_CHECKING:
    from simulator.appcheck.finding import Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        id: stable.
        severity: of its findings.
        means: what happens in Azure, in a sentence or two.
        remedy: what to do.
        page: where more is said, below ``docs``.
    """

    id: str
    severity: Severity
    means: str
    remedy: str
    page: str

    def broken(self, message: str, function: str = "", place: Place | None = None) -> Finding:
        """Return a finding of this rule."""
        return Finding(
            id=self.id,
            severity=self.severity,
            message=message,
            function=function,
            place=place,
            docs=f"docs/{self.page}",
        )


_ERRORS: Final = (
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
_WARNINGS: Final = (
    (
        "scope-on-rows",
        (
            "A SQL or MySQL trigger delivers up to 100 rows at a time. A list of more than one row has no scope, so it "
            "fails."
        ),
        "Set the app setting `Sql_Trigger_MaxBatchSize` (`MySql_Trigger_MaxBatchSize`) to 1.",
        "triggers.md",
    ),
    (
        "scope-path-with-dots",
        "In `scope`, levels are parted by `:`. With `.` or `/` the whole text is the name of one property.",
        "Write `Order:Id`, unless the property is really called so.",
        "triggers.md",
    ),
    (
        "scope-without-body",
        "`scope` reads the body of the request, and the route takes only methods that have none.",
        'Use `scope_id` with a name of the route or of the query: `scope_id="{id}"`.',
        "triggers.md",
    ),
    (
        "scope-not-in-text",
        (
            "The parameter is text or bytes, so only its own JSON is there: no path of a blob, no `SessionId`. Where "
            "the JSON lacks the name, too, each invocation fails."
        ),
        "Annotate the parameter as the trigger's own type: `func.InputStream`, `func.ServiceBusMessage`, ….",
        "triggers.md",
    ),
    (
        "scope-always-new",
        (
            "The scope has a value that no two messages share. So each has a lock of its own, and nobody waits "
            "for anybody."
        ),
        "Name a property of the body that the messages have in common.",
        "triggers.md",
    ),
    (
        "trigger-unknown",
        "The guard does not see its trigger, so it can't tell which argument is the payload, or put a message back.",
        "Put `@singleton` above the trigger's decorator.",
        "triggers.md",
    ),
    (
        "timeout-beyond-function-timeout",
        "A wait ends before `functionTimeout` does, whatever `timeout` says.",
        "Raise `functionTimeout`, or lower `timeout`.",
        "operations.md#functiontimeout-and-workers-that-are-killed",
    ),
    (
        "lock-period-beyond-function-timeout",
        "A worker that ends at `functionTimeout` leaves its lease, which lasts for longer than an invocation may.",
        "Lower `lock_period`, or raise `functionTimeout`.",
        "operations.md#functiontimeout-and-workers-that-are-killed",
    ),
    (
        "max-hold-beyond-function-timeout",
        "The host ends the whole worker at `functionTimeout`, before `max_hold` ends the hold.",
        "Set `max_hold` below `functionTimeout`.",
        "how-to/at-least-at-most.md",
    ),
    (
        "at-least-beyond-function-timeout",
        "The lock is kept for longer than a waiter may wait. So the next invocation of this lock fails.",
        'Lower `at_least`, raise `functionTimeout`, or use `"skip"` or `"defer"`.',
        "how-to/at-least-at-most.md",
    ),
    (
        "at-least-beyond-period",
        "The lock is still kept when the timer ticks again. So ticks are skipped, fail or wait.",
        "Set `at_least` below the timer's period.",
        "how-to/at-least-at-most.md",
    ),
    (
        "timer-wait-beyond-period",
        "A tick may wait for longer than the timer's period. So the ticks after it are late.",
        'Set `timeout` below the period, or use `"skip"`.',
        "triggers.md#timers",
    ),
    (
        "http-wait-beyond-230-s",
        (
            "Azure's load balancer ends an HTTP request after 230 seconds without an answer. The function goes on"
            " waiting, and nobody reads its answer."
        ),
        "Set `timeout` to less than 230, or ask for the lock in the function and answer 409.",
        "triggers.md#policies",
    ),
    (
        "wait-beyond-lock-renewal",
        (
            "Service Bus takes a message back when its lock is not renewed any more. The host renews it for "
            "`maxAutoLockRenewalDuration`, 5 minutes by default. A wait that is longer runs the message twice."
        ),
        "Lower `timeout`, or raise `maxAutoLockRenewalDuration`.",
        "triggers.md#policies",
    ),
    (
        "raise-with-one-dequeue",
        "With `maxDequeueCount` 1 a message is poison after one failure. A busy lock is one.",
        'Raise `maxDequeueCount`, or use `"wait"` or `"defer"`.',
        "operations.md#messages-that-come-back-too-soon",
    ),
    (
        "queue-option-in-days",
        "A number without colons is a number of days to the Functions host, and not of seconds.",
        'Write the time as `"hh:mm:ss"`.',
        "operations.md#messages-that-come-back-too-soon",
    ),
    (
        "wait-runs-out",
        (
            "All tries of a message together last for less than the lock may be taken: for less than `at_least`, "
            "or than the lease that a holder leaves when it crashes. So good messages become poison."
        ),
        "Raise `timeout`, `visibilityTimeout` or `maxDequeueCount`, or leave `timeout` out.",
        "operations.md#messages-that-come-back-too-soon",
    ),
    (
        "waiters-fill-thread-pool",
        (
            "A `def` function that waits keeps a thread, and as many invocations of all functions together may wait as "
            "there are threads. So waiters can stop all `def` functions of the worker."
        ),
        "Leave `PYTHON_THREADPOOL_THREAD_COUNT` unset, set `max_waiting`, or make the function `async def`.",
        "operations.md#the-thread-pool",
    ),
    (
        "listener-with-worker-processes",
        "One worker process is the listener. What the host gives to another one is skipped, put back or fails.",
        "Set `FUNCTIONS_WORKER_PROCESS_COUNT` to 1, or leave `mode` out.",
        "why/worker-process-count.md",
    ),
    (
        "listener-on-trigger",
        (
            "In a process that is not the listener, an invocation of this trigger fails. A timer's is skipped, "
            "and a storage queue's message is put back; nothing of that kind is possible here."
        ),
        'Leave `mode="listener"` out; or, if it is meant so, give `on_contention="raise"`.',
        "triggers.md#policies",
    ),
    (
        "same-lock",
        'Two functions have the same lock without `level="host"`. They exclude one another.',
        'Give each its own `name`; if they are to share the lock, say so with `level="host"`.',
        "options.md",
    ),
    (
        "locks-differ-by-case",
        "Two functions name locks that differ by case only. They are two locks, and don't exclude one another.",
        "Write both alike, if they are to share the lock.",
        "options.md",
    ),
    (
        "limits-differ",
        (
            "A function with a `limit` and one without it have different locks. They don't exclude one another. Of two "
            "limits on one name, the greater one counts."
        ),
        "Give both the same `limit`.",
        "how-to/semaphore.md",
    ),
    (
        "guard-without-function",
        "A guarded function is none of the app's functions: it has no trigger, or its blueprint is not registered.",
        "Give it a trigger, register its blueprint, or remove `@singleton`.",
        "reference.md",
    ),
    (
        "function-not-registered",
        "A function belongs to a blueprint that is not registered. The Functions host does not know it.",
        "Call `app.register_functions(blueprint)` in the app's script.",
        "reference.md",
    ),
    (
        "hidden-by-decorator",
        "Another decorator hides the guarded function, so the guard knows neither its trigger nor its invocation.",
        "Use `functools.wraps` in that decorator, or put `@singleton` above all others.",
        "triggers.md",
    ),
    (
        "sync-wrapper-around-async",
        (
            "A decorator makes a plain function of an `async def`. If it returns the coroutine, each invocation "
            "fails: it would run without the lock."
        ),
        "Put `@singleton` right above the `async def`, or make the decorator's function async.",
        "triggers.md#policies",
    ),
    (
        "connection-string-in-code",
        "`connection=` is a connection string, with its key, in the source.",
        "Put it into an app setting, and give the setting's name. Then change the key.",
        "deploy.md",
    ),
    (
        "identity-not-installed",
        (
            "The connection of a lock asks for an identity, and the package for it is not installed. Each "
            "invocation fails."
        ),
        "Add `azure-functions-singleton[identity]` to requirements.txt.",
        "deploy.md",
    ),
    (
        "lock-renamed",
        (
            "The lock has another name than in the version with which `--against` compares. While both run, they "
            "do not exclude one another."
        ),
        "Take both locks for one deployment, `also=OldLock(…)`; or stop all of the old version first.",
        "how-to/rename.md",
    ),
    (
        "limit-changed",
        (
            "The `limit` of a lock is another one than in the version with which `--against` compares. While both run, "
            "as many invocations run at a time as the greater limit allows."
        ),
        "Stop all of the old version first, if the limit must hold meanwhile.",
        "how-to/semaphore.md",
    ),
    (
        "host-id-cut",
        (
            "The host id is cut to 32 characters. Another app or slot whose name begins with the same ones has "
            "the same locks, and both exclude one another."
        ),
        "Set `hostId` in the section `singleton`, or shorten the name.",
        "layouts.md",
    ),
    (
        "locks-off",
        "The option `enabled` is false. Guarded functions run without a lock.",
        "Remove the option, except where it is meant so.",
        "options.md",
    ),
)
"""It may be wrong."""

_NOTES: Final = (
    (
        "settings-not-known",
        (
            "No app settings were found. So the connections of triggers and `AzureWebJobsStorage` are not checked, "
            "and a `%NAME%` of a trigger that is not set is a warning only."
        ),
        "Give them with `--settings FILE`, in `local.settings.json`, or in the environment.",
        "how-to/check.md",
    ),
    (
        "http-wait-unbounded",
        "Callers wait for up to `functionTimeout`. Azure's load balancer ends their requests after 230 seconds.",
        "Set `timeout` to less than 230.",
        "triggers.md#policies",
    ),
    (
        "raise-comes-back-at-once",
        (
            "A message whose lock is busy comes back at once, and is poison after `maxDequeueCount` failures. "
            "That may be a matter of seconds."
        ),
        'Set `visibilityTimeout`, or use `"wait"` or `"defer"`.',
        "operations.md#messages-that-come-back-too-soon",
    ),
    (
        "skip-drops-message",
        "A message that is skipped is done: it is deleted, and its work is not.",
        'Use `"wait"` or `"defer"`, unless another run does that work.',
        "triggers.md#policies",
    ),
    (
        "timer-wait-unbounded",
        "A tick waits for as long as the lock is taken, and the timer ticks every few seconds. Later ticks are late.",
        'Use `"skip"`, or set `timeout`.',
        "triggers.md#timers",
    ),
    (
        "visibility-timeout-no-bound",
        (
            "`visibilityTimeout` is how long a message stays away after it failed. It does not bound a wait: while "
            "an invocation waits, the host keeps its message from others."
        ),
        "Nothing, unless the wait is meant to end sooner: then lower `timeout`.",
        "operations.md#messages-that-come-back-too-soon",
    ),
    (
        "shared-lock",
        'Several functions share a lock by `level="host"`: they exclude one another.',
        "Nothing, if it is meant so.",
        "options.md",
    ),
    (
        "scope-is-constant",
        "`scope_id` has neither a `{name}` nor a `%SETTING%`. So all messages share one lock, as without it.",
        "Write `{Id}` if a property is meant. Nothing, if it is to name the lock only.",
        "triggers.md",
    ),
    (
        "nothing-guarded",
        "No function of the app has a guard.",
        "Put `@singleton` on those that must not run twice at once.",
        "tutorial.md",
    ),
)
"""It is worth knowing."""
RULES: Final[dict[str, Rule]] = {
    **{rule[0]: Rule(rule[0], "error", *rule[1:]) for rule in _ERRORS},
    **{rule[0]: Rule(rule[0], "warning", *rule[1:]) for rule in _WARNINGS},
    **{rule[0]: Rule(rule[0], "note", *rule[1:]) for rule in _NOTES},
}
"""The rules by their ids: errors first, then warnings, then notes."""
