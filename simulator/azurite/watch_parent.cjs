// Loaded into Node before Azurite (or npm): ends the process as soon as the Python process that started it is gone,
// however it went. The end of standard input is the signal; the look at the parent's id is there for the case that
// somebody else inherited the other end of that pipe.
"use strict";

const parent = process.ppid;

const gone = () => process.exit(0);

process.stdin.on("end", gone).on("error", gone).on("close", gone);
process.stdin.resume();
process.stdin.unref?.();

setInterval(() => process.ppid === parent || gone(), 500).unref();
