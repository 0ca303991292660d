// How long our own callbacks keep the extension host; tests read it.

export const longest = { ms: 0, what: 'nothing' };

export function resetLongest(): void {
  longest.ms = 0;
  longest.what = 'nothing';
}

/** A callback whose time is taken. */
export function timed<A extends unknown[], R>(what: string, callback: (...args: A) => R): (...args: A) => R {
  return (...args) => {
    const started = performance.now();
    const clock = process.cpuUsage();
    try {
      return callback(...args);
    } finally {
      // The machine may do something else meanwhile, and so may other threads of this process.
      const { user, system } = process.cpuUsage(clock);
      const ms = Math.min(performance.now() - started, (user + system) / 1000);
      if (ms > longest.ms) {
        longest.ms = ms;
        longest.what = what;
      }
    }
  };
}
