// The order of verdicts.

import type { Verdict } from './protocol';

/** The functions of a file: the flagged ones first, then by probability. */
export function sorted<T extends { verdict: Verdict }>(nodes: T[]): T[] {
  return nodes.sort(
    (one, other) =>
      Number(other.verdict.flagged && other.verdict.ignored === undefined) -
        Number(one.verdict.flagged && one.verdict.ignored === undefined) ||
      other.verdict.probability - one.verdict.probability,
  );
}
