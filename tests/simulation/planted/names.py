"""Planted bugs in which lock and which account: connections, host ids, names, layouts, options."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

_SETTINGS = "singleton/settings/"
CONNECTION = f"{_SETTINGS}connection.py"
STORAGESTRING = f"{_SETTINGS}storagestring.py"
HOSTID = f"{_SETTINGS}hostid.py"
OPTIONS = f"{_SETTINGS}options.py"
HOSTJSON = f"{_SETTINGS}hostjson.py"
APPSETTINGS = f"{_SETTINGS}appsettings.py"
CREDENTIALS = f"{_SETTINGS}credentials.py"
DURATIONS = f"{_SETTINGS}durations.py"
TIMESPAN = "singleton/base/timespan.py"
BASE_NAMES = "singleton/base/names.py"
NAMING = "singleton/layouts/naming.py"
SAFENAME = "singleton/layouts/safename.py"
NAMED = "singleton/layouts/named.py"
WEBJOBS = "singleton/layouts/webjobs.py"
DEQUEUEABLE = "singleton/layouts/dequeueable.py"
DEQUEUEABLE_OPTIONS = "singleton/layouts/dequeueable_options.py"
TEMPLATE = "singleton/scopes/template.py"
SCOPE = "singleton/scopes/scope.py"
JSON_VALUES = "singleton/scopes/json_values.py"
FORMATS = "singleton/scopes/formats.py"
DATES = "singleton/scopes/dates.py"
DOTNET = "singleton/scopes/dotnet.py"
DECLARATION = "singleton/functions/declaration.py"
REGISTRY = "singleton/process/registry.py"
SLOTS = "singleton/locking/slots.py"

NAMES: tuple[Mutant, ...] = (
    Mutant(
        name="the connection's own name before the prefixed one",
        file=CONNECTION,
        old='    for candidate in (f"AzureWebJobs{name}", name):\n',
        new='    for candidate in (name, f"AzureWebJobs{name}"):\n',
        breaks="locks are in another account than the Functions host's triggers read",
    ),
    Mutant(
        name="connection strings of the platform not looked for",
        file=CONNECTION,
        old='(f"ConnectionStrings__{candidate}", f"CUSTOMCONNSTR_{candidate}", candidate)',
        new='(f"ConnectionStrings__{candidate}", candidate)',
        breaks="an account that is set as a custom connection string is not found, or another one is",
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
        old="        if given:\n            url = checked_url(given",
        new="        if given and not account:\n            url = checked_url(given",
        breaks="blobs are looked for in another account than blobServiceUri says",
    ),
    Mutant(
        name="signature dropped",
        file=CONNECTION,
        old='        if "sig=" in url.partition("?")[2]:\n            return StorageAccount(account_url=url)\n',
        new='        if "sig=" in url.partition("?")[2]:\n            return StorageAccount(account_url=url.partition("?")[0])\n',
        breaks="requests go out without the signature that lets them in",
    ),
    Mutant(
        name="endpoint suffix ignored",
        file=STORAGESTRING,
        old='"endpointsuffix": "core.windows.net"} | parts\n',
        new='"endpointsuffix": "core.windows.net"} | parts | {"endpointsuffix": "core.windows.net"}\n',
        breaks="an account of another cloud is looked for in the public one",
    ),
    Mutant(
        name="values of connection strings cut at their equals signs",
        file=STORAGESTRING,
        old='        key, equals, value = part.partition("=")\n',
        new='        key, equals, value = part.rstrip("=").partition("=")\n',
        breaks="keys lose their padding, and no request is let in",
    ),
    Mutant(
        name="proxy of the emulator's port kept",
        file=STORAGESTRING,
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
        name="host id of a slot without the slot",
        file=HOSTID,
        old='else f"{site}-{slot}"\n',
        new="else site\n",
        breaks="staging and production take each other's locks",
    ),
    Mutant(
        name="host id longer by one",
        file=HOSTID,
        old="_LONGEST = 32\n",
        new="_LONGEST = 33\n",
        breaks="a long site name gives another host id than the Functions host's",
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
        name="host.json over app settings",
        file=OPTIONS,
        old="    given = _in_host_json(app_dir) | _collected(\n        (key, value, f\"app setting {spelt}\") for spelt, key, value in section(settings, _SETTING_PREFIX)\n    )\n",
        new="    given = _collected(\n        (key, value, f\"app setting {spelt}\") for spelt, key, value in section(settings, _SETTING_PREFIX)\n    ) | _in_host_json(app_dir)\n",
        breaks="an app setting that overrides host.json has no effect",
    ),
    Mutant(
        name="no limit read as the longest time",
        file=OPTIONS,
        old="            value = None if value >= FOREVER and name in _MAY_BE_NONE else value\n",
        new="            value = 60.0 if value >= FOREVER and name in _MAY_BE_NONE else value\n",
        breaks="who is to wait for as long as it takes gives up after a minute",
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
        name="identity without its client id",
        file=CREDENTIALS,
        old='        client_id=keys.get("clientid") or keys.get("managedidentityclientid"),\n',
        new='        client_id=keys.get("managedidentityclientid"),\n',
        breaks="another identity asks for the locks than was deployed",
    ),
    Mutant(
        name="workload identity by the platform's settings first",
        file=CREDENTIALS,
        old="        value = keys.get(key.lower()) or filled(settings, variable)\n",
        new="        value = filled(settings, variable) or keys.get(key.lower())\n",
        breaks="another identity asks for the locks than was deployed",
    ),
    Mutant(
        name="comments taken out of texts",
        file=HOSTJSON,
        old='    return found if found.startswith(\'"\') else re.sub(r"[^\\n]", " ", found)\n',
        new='    return re.sub(r"[^\\n]", " ", found)\n',
        breaks="a host.json with comments is not read",
    ),
    Mutant(
        name="only the first section's keys in lower case",
        file=HOSTJSON,
        old="    found = [value for key, value in root.entries if key.casefold() == name.casefold()]\n",
        new="    found = [value for key, value in root.entries if key == name]\n",
        breaks="a section that is spelt Singleton is not read",
    ),
    Mutant(
        name="level host with the function's name",
        file=NAMING,
        old='    if level == "function":\n        return [_encoded(function), *scopes]\n',
        new='    if function:\n        return [_encoded(function), *scopes]\n',
        breaks="functions that name one scope do not exclude each other",
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
        name="WebJobs name without its type",
        file=WEBJOBS,
        old='(self._dotnet_name or f"{_TYPE}.{function}",)',
        new="(self._dotnet_name or function,)",
        breaks="a .NET host of the same function is not excluded",
    ),
    Mutant(
        name="backslash left to the client",
        file=WEBJOBS,
        old='.rstrip("/").replace("\\\\", "/")\n',
        new='.rstrip("/")\n',
        breaks="the blob's name is another than a .NET host's",
    ),
    Mutant(
        name="WebJobs locks in the container of the options",
        file=WEBJOBS,
        old="        return options.replace(container=CONTAINER)\n",
        new="        return options\n",
        breaks="a .NET host's locks are in another container",
    ),
    Mutant(
        name="WebJobs blob with a token",
        file=WEBJOBS,
        old='        return "none" if listener else "owner"\n',
        new='        return "none" if listener else "token"\n',
        breaks="holds have tokens that a .NET host does not count up",
    ),
    Mutant(
        name="lease of Dequeueable by the option for functions",
        file=DEQUEUEABLE,
        old="            lock_period=self.options.lease,\n",
        new="",
        breaks="a lease is not as long as its section says",
    ),
    Mutant(
        name="longest delay of Dequeueable ignored",
        file=DEQUEUEABLE,
        old="            longest=self.options.longest,\n",
        new="            longest=120,\n",
        breaks="who waits asks less often than its section says",
    ),
    Mutant(
        name="one retry less",
        file=DEQUEUEABLE,
        old="            retries=self.options.retries,\n",
        new="            retries=max(0, self.options.retries - 1),\n",
        breaks="who waits gives up before the retries that its section says",
    ),
    Mutant(
        name="shortest and longest delay exchanged",
        file=DEQUEUEABLE_OPTIONS,
        old='("shortest", _whole(0)),  # D-4\n',
        new='("longest", _whole(0)),  # D-4\n',
        breaks="who waits asks more often than its section says",
    ),
    Mutant(
        name="settings of a template filled in again",
        file=TEMPLATE,
        old="        bound = resolved if data is None else self._filled(resolved, data, subject)\n",
        new="        bound = resolved if data is None else self._filled(resolved, data, subject)\n        bound = _settings_filled(bound, settings, subject)\n",
        breaks="a message's value is read as the name of an app setting",
    ),
    Mutant(
        name="first property whatever its case",
        file=TEMPLATE,
        old="        if name in found:\n            return found[name]\n        for other",
        new="        for other",
        breaks="of two properties that differ by case the wrong one names the lock",
    ),
    Mutant(
        name="nested scope by its last name only",
        file=SCOPE,
        old="    for depth, name in enumerate(segments):\n",
        new="    for depth, name in enumerate(segments[-1:]):\n",
        breaks="another property names the lock",
    ),
    Mutant(
        name="numbers read as floats",
        file=JSON_VALUES,
        old="parse_int=NumberText, parse_float=NumberText",
        new="parse_int=NumberText, parse_float=lambda text: NumberText(float(text))",
        breaks="a number's spelling is lost, and another lock is asked for",
    ),
    Mutant(
        name="booleans in lower case",
        file=JSON_VALUES,
        old='        return "True" if value else "False"\n',
        new='        return "true" if value else "false"\n',
        breaks="a .NET host names another lock for the same message",
    ),
    Mutant(
        name="null scopes the whole function",
        file=SCOPE,
        old='        raise ScopeError(f"{subject} is null: every message needs one", reason="empty")\n',
        new='        return "null"\n',
        breaks="a message without a scope takes a lock",
    ),
    Mutant(
        name="hours of half a day",
        file=FORMATS,
        old='    "HH": lambda when: f"{when.hour:02}",\n',
        new='    "HH": lambda when: f"{when.hour % 12:02}",\n',
        breaks="two hours of a day share a lock",
    ),
    Mutant(
        name="month before day",
        file=DATES,
        old='        _MONTH + r"(?P<gap>[-/.]| +)" + _DAY + "(?P=gap)" + _YEAR,\n',
        new='        _DAY + r"(?P<gap>[-/.]| +)" + _MONTH + "(?P=gap)" + _YEAR,\n',
        breaks="a .NET host reads another date in the same message",
    ),
    Mutant(
        name="dates taken for text",
        file=DOTNET,
        old="    if read_date(text):\n",
        new="    if False:\n",
        breaks="a .NET host may name another lock for the same message, and nobody is told",
    ),
    Mutant(
        name="layout forgets the account",
        file=DECLARATION,
        old="resolve_blob_account(self.connection, os.environ)",
        new='resolve_blob_account("AzureWebJobsStorage", os.environ)',
        breaks="locks are in the default account, whatever the declaration says",
    ),
    Mutant(
        name="host id of the options ignored",
        file=DECLARATION,
        old="        return self.options.host_id or host_id(os.environ, self.app_dir)\n",
        new="        return host_id(os.environ, self.app_dir)\n",
        breaks="apps that share a hostId do not share locks",
    ),
    Mutant(
        name="one stamp for all layouts",
        file=DECLARATION,
        old="self.options, self.layout.stamp())\n",
        new="self.options)\n",
        breaks="holds have tokens that a .NET host does not count up",
    ),
    Mutant(
        name="tokens whatever the options say",
        file=REGISTRY,
        old='stamp if options.fencing_tokens else "none")\n',
        new="stamp)\n",
        breaks="blobs are written on that are to be left alone",
    ),
    Mutant(
        name="longest polling interval for the shortest",
        file=REGISTRY,
        old="            poll_min=options.lock_acquisition_min_polling_interval,\n",
        new="            poll_min=options.lock_acquisition_polling_interval,\n",
        breaks="the first polls come late",
    ),
    Mutant(
        name="renewal interval ignored",
        file=REGISTRY,
        old="            renewal=options.renewal_interval,\n",
        new="            renewal=None,\n",
        breaks="leases are renewed at another pace than the options say",
    ),
    Mutant(
        name="containers of an account mixed up",
        file=REGISTRY,
        old="        if place not in self._stores:\n            self._stores[place] = self._open_store(place)\n        return self._stores[place]\n",
        new="        for known, store in self._stores.items():\n            if known.account == place.account:\n                return store\n        self._stores[place] = self._open_store(place)\n        return self._stores[place]\n",
        breaks="locks of a second container are asked for in the first",
    ),
    Mutant(
        name="slots share a blob",
        file=SLOTS,
        old='    return f"{name}/slot-{number}"\n',
        new='    return f"{name}/slot-{number // 2}"\n',
        breaks="fewer run at once than the limit says",
    ),
    Mutant(
        name="minimum polling interval above the longest let through",
        file=DURATIONS,
        old="        return float(number)\n",
        new="        return float(int(number))\n",
        breaks="a duration loses its fraction",
    ),
)
