// Loaded into Node before Azurite: its telemetry is off, and the package behind it takes more than half of its start.
// So that is loaded when something of it is used, and else not at all.
"use strict";

const Module = require("node:module");

const NAME = "applicationinsights";
const load = Module._load;

Module._load = (request, ...rest) => {
  if (request !== NAME) return load(request, ...rest);
  let loaded;
  return new Proxy({}, { get: (_, property) => (loaded ??= load(NAME, ...rest))[property] });
};
