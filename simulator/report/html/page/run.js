// The run's data: columns are read as if they were objects.

function readRun(packed) {
  const text = (number) => packed.texts[number] ?? "";
  /** Make an object of each line of the columns. */
  function objects(columns) {
    const names = Object.keys(columns);
    const many = names.length ? columns[names[0]].length : 0;
    const found = new Array(many);
    for (let i = 0; i < many; i++) {
      const made = { i };
      for (const name of names) {
        if (name[0] === "$") made[name.slice(1)] = text(columns[name][i]);
        else made[name] = columns[name][i];
      }
      found[i] = made;
    }
    return found;
  }
  const run = { ...packed };
  for (const name of ["bodies", "holdings", "waits", "leases", "handovers", "messages"]) run[name] = objects(packed[name]);
  run.hosts = packed.hosts.map(({ name, lives }, number) => ({
    name,
    number,
    lives: lives.map(([life, pid, start, end, ended]) => ({ name: life, pid, start, end, ended })),
  }));
  run.locks = packed.locks.map(([lock, label, fn], number) => ({ lock, label, fn, number }));
  const keys = { overlaps: "lock start end hosts owners caught", takeovers: "lock victim at state by taken bound token" };
  for (const [name, words] of Object.entries(keys)) {
    run[name] = packed[name].map((row) => Object.fromEntries(words.split(" ").map((word, i) => [word, row[i]])));
  }
  run.lockOf = new Map(run.locks.map((each) => [each.lock, each]));
  run.hostOf = new Map(run.hosts.flatMap((each) => [[each.name, each], ...each.lives.map((life) => [life.name, each])]));
  run.label = (lock) => run.lockOf.get(lock)?.label ?? lock;
  run.notes = notesOf(packed.notes, text);
  return run;
}

/** The records behind the marks; they are looked for when somebody wants to see some. */
function notesOf(columns, text) {
  const many = columns.at?.length ?? 0;
  const index = (name) => {
    const found = new Map();
    for (let i = 0; i < many; i++) {
      const key = text(columns[`$${name}`][i]);
      if (found.has(key)) found.get(key).push(i);
      else found.set(key, [i]);
    }
    return found;
  };
  const indexes = {};
  const of = (name) => (indexes[name] ??= index(name));
  const note = (i) => ({ at: columns.at[i], host: text(columns.$host[i]), text: text(columns.$text[i]), lock: text(columns.$lock[i]) });
  return {
    /** All records of an invocation or a message. */
    ofOwner: (host, owner) => (of("owner").get(owner) ?? []).map(note).filter((each) => !host || each.host === host),
    /** The requests of a host for a lease on a blob, in a span of time. */
    ofLease: (host, blob, start, end) => [...of("lock").entries()]
      .filter(([lock]) => lock === blob || lock.endsWith(`/${blob}`))
      .flatMap(([, found]) => found.map(note))
      .filter((each) => each.host === host && /^(lease )?request,/.test(each.text) && each.at >= start - 0.5 && each.at <= end + 0.5)
      .sort((a, b) => a.at - b.at),
    /** What hosts wrote about themselves around a moment, without requests. */
    around: (hosts, at, within) => hosts
      .flatMap((host) => (of("host").get(host) ?? []).map(note))
      .filter((each) => Math.abs(each.at - at) <= within && !/^(lease )?request,/.test(each.text))
      .sort((a, b) => a.at - b.at),
  };
}
