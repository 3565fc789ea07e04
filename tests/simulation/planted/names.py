"""Planted bugs in which lock and which account: connections, host ids, names, layouts, options."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

_SETTINGS = "singleton/settings/"
CONNECTION = f"{_SETTINGS}connection.py"
HOSTID = f"{_SETTINGS}hostid.py"
ADDRESS = "singleton/runtime/address.py"
APPSETTINGS = "singleton/base/appsettings.py"
CREDENTIALS = f"{_SETTINGS}connection.py"
DURATIONS = f"{_SETTINGS}durations.py"
TIMESPAN = "singleton/base/timespan.py"
NAMING = "singleton/layouts/blob_name.py"
WEBJOBS = "singleton/dotnet/webjobs.py"
TEMPLATE = "singleton/scopes/template.py"
SCOPE = "singleton/scopes/template.py"
DOTNET = "singleton/dotnet/typed_values.py"
DECLARATION = "singleton/functions/declaration.py"
REGISTRY = "singleton/runtime/registry.py"
SLOTS = "singleton/locking/semaphore.py"

NAMES: tuple[Mutant, ...] = (
    Mutant(
        name="the connection's own name before the prefixed one",
        file=CONNECTION,
        old='    for candidate in (f"AzureWebJobs{name}", name):\n',
        new='    for candidate in (name, f"AzureWebJobs{name}"):\n',
        breaks="locks are in another account than the Functions host's triggers read",
    ),
    Mutant(
        name="settings below a connection before its value",
        file=CONNECTION,
        old="        if self.value:  # wins over every setting below it (H-23)\n",
        new="        if self.value and not self.keys:\n",
        breaks="a connection string loses against what stands below it",
    ),
    Mutant(
        name="account name before the blob service's address",
        file=CONNECTION,
        old='    "blob": ("blobServiceUri", "accountName", "serviceUri"),\n',
        new='    "blob": ("accountName", "blobServiceUri", "serviceUri"),\n',
        breaks="blobs are looked for in another account than blobServiceUri says",
        among="deployed",
    ),
    Mutant(
        name="endpoint suffix ignored",
        file=CONNECTION,
        old='"endpointsuffix": "core.windows.net"} | parts\n',
        new='"endpointsuffix": "core.windows.net"} | parts | {"endpointsuffix": "core.windows.net"}\n',
        breaks="an account of another cloud is looked for in the public one",
    ),
    Mutant(
        name="proxy of the emulator's port kept",
        file=CONNECTION,
        old='    host = proxy.rpartition(":")[0] if proxy.rpartition(":")[2].isdigit() else proxy\n',
        new="    host = proxy\n",
        breaks="the emulator is looked for under two ports",
    ),
    Mutant(
        name="slot of production named",
        file=HOSTID,
        old='    named = site if slot is None or slot.lower() == "production" else f"{site}-{slot}"\n',
        new='    named = site if slot is None else f"{site}-{slot}"\n',
        breaks="the production slot has other locks than the site",
    ),
    Mutant(
        name="dash left at a host id's end",
        file=HOSTID,
        old='    fitted = name[:_LONGEST].lower().rstrip("-")\n',
        new='    fitted = name.rstrip("-")[:_LONGEST].lower()\n',
        breaks="a site name that is cut at a dash gives another host id than the Functions host's",
    ),
    Mutant(
        name="bytes of the Flex hash in order",
        file=HOSTID,
        old="    return (digest[3::-1] + digest[5:3:-1] + digest[7:5:-1] + digest[8:]).hex()\n",
        new="    return digest.hex()\n",
        breaks="an app on Flex Consumption has another host id than the Functions host's",
    ),
    Mutant(
        name="fractions of a time span by their digits",
        file=TIMESPAN,
        old='    fraction = int((match["f"] or "").ljust(7, "0"))\n',
        new='    fraction = int(match["f"] or 0)\n',
        breaks="half a second is read as nothing",
    ),
    Mutant(
        name="case of settings counts",
        file=APPSETTINGS,
        old='    return name.replace(":", "__").casefold()\n',
        new='    return name.replace(":", "__")\n',
        breaks="a setting that the Functions host finds is not found",
    ),
    Mutant(
        name="workload identity by the platform's settings first",
        file=CREDENTIALS,
        old="        value = keys.get(key.lower()) or filled(settings, variable)\n",
        new="        value = filled(settings, variable) or keys.get(key.lower())\n",
        breaks="another identity asks for the locks than was deployed",
    ),
    Mutant(
        name="dots not encoded",
        file=NAMING,
        old='0123456789_-")\n',
        new='0123456789_-.")\n',
        breaks="two scopes of different parts mean one lock",
    ),
    Mutant(
        name="hash of the beginning",
        file=NAMING,
        old='~{digest(name)}"\n\n\ndef _without',
        new='~{digest(name[:longest])}"\n\n\ndef _without',
        breaks="long values with one beginning share a lock",
    ),
    Mutant(
        name="backslash left to the client",
        file=WEBJOBS,
        old='.rstrip("/").replace("\\\\", "/")\n',
        new='.rstrip("/")\n',
        breaks="the blob's name is another than a .NET host's",
    ),
    Mutant(
        name="one retry less",
        file="singleton/dotnet/attempts.py",
        old="    left = attempts.retries if timeout is None else math.inf\n",
        new="    left = max(0, attempts.retries - 1) if timeout is None else math.inf\n",
        breaks="a waiter gives up before the number of retries in its settings",
    ),
    Mutant(
        name="first property whatever its case",
        file=TEMPLATE,
        old="        if name in found:\n            return found[name]\n        for other",
        new="        for other",
        breaks="of two properties that differ by case the wrong one names the lock",
    ),
    Mutant(
        name="null scopes the whole function",
        file=SCOPE,
        old='        raise ScopeError(f"{subject} is null: every message needs a value", reason="empty")\n',
        new='        return "null"\n',
        breaks="a message without a scope takes a lock",
    ),
    Mutant(
        name="dates taken for text",
        file=DOTNET,
        old="        _refuse_what_may_be_typed(value, subject, name)\n",
        new="",
        breaks="a .NET host may name another lock for the same message, and nobody is told",
    ),
    Mutant(
        name="one stamp for all layouts",
        file=DECLARATION,
        old="self.options, self.layout.stamp())\n",
        new="self.options)\n",
        breaks="holds have tokens that a .NET host does not count up",
    ),
    Mutant(
        name="longest polling interval for the shortest",
        file=ADDRESS,
        old="        poll_min=options.lock_acquisition_min_polling_interval,\n",
        new="        poll_min=options.lock_acquisition_polling_interval,\n",
        breaks="the first polls come late",
    ),
    Mutant(
        name="renewal interval ignored",
        file=ADDRESS,
        old="        renewal=options.renewal_interval,\n",
        new="        renewal=None,\n",
        breaks="leases are renewed at another pace than the options say",
    ),
    Mutant(
        name="slots share a blob",
        file=SLOTS,
        old='    return f"{name}/slot-{number}"\n',
        new='    return f"{name}/slot-{number // 2}"\n',
        breaks="fewer run at once than the limit says",
    ),
)
