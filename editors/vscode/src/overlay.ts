// What is known of one document's functions, kept true while it is edited: an edit inside a function takes it away at
// once, edits elsewhere move it along.

import type { Finding, Line } from './protocol';

export interface Entry {
  finding: Finding;
  /** What to add to the finding's lines. */
  offset: number;
}

/** A change of the text: where it was, in the text before it, and what came there. */
export interface Edit {
  start: { line: number; character: number };
  end: { line: number; character: number };
  text: string;
}

export const first = (entry: Entry): number => entry.finding.function.startLine + entry.offset;
export const last = (entry: Entry): number => entry.finding.function.endLine + entry.offset;

function lineBreaks(text: string): number {
  return text.match(/\r\n|\r|\n/g)?.length ?? 0;
}

export class Overlay {
  /** In the order of the text. */
  entries: Entry[] = [];
  /** Ground-truth lines of the other functions. */
  otherTruth: number[] = [];
  /** Where functions stand that were edited since the server spoke of them. */
  private gone: { first: number; last: number }[] = [];
  /** The version that the entries belong to, if it came from the server for just that one. */
  version: number | undefined;

  /** Takes what the server says, unless it is about another version than the one that is shown. */
  replace(findings: readonly Finding[], version: number, shown: number, otherTruth: readonly number[] = []): boolean {
    if (version !== shown) {
      return false;
    }
    this.version = version;
    this.gone = [];
    this.otherTruth = [...otherTruth];
    this.entries = findings.map((finding) => ({ finding, offset: 0 }));
    this.entries.sort((one, other) => first(one) - first(other));
    return true;
  }

  /** Follows edits, in the order in which they are applied. Returns whether a function is gone. */
  edit(edits: readonly Edit[]): boolean {
    const before = this.entries.length;
    for (const { start, end, text } of edits) {
      // Whole lines in front of a line leave it as it is.
      const wholeLines = start.character === 0 && end.character === 0 && (text === '' || /[\r\n]$/.test(text));
      const touchedEnd = wholeLines ? end.line : end.line + 1;
      const moved = lineBreaks(text) - (end.line - start.line);
      // A line that goes takes its mark along; the first line of an edit stays, unless all of it goes.
      this.otherTruth = this.otherTruth
        .filter((line) => line < start.line || line >= touchedEnd || (line === start.line && !wholeLines))
        .map((line) => (line >= touchedEnd ? line + moved : line));
      for (const place of this.gone.filter((one) => start.line <= one.last)) {
        place.first += touchedEnd <= place.first ? moved : 0;
        place.last = Math.max(place.last + moved, place.first);
      }
      this.entries = this.entries.filter((entry) => {
        if (start.line > last(entry)) {
          return true;
        }
        if (touchedEnd <= first(entry)) {
          entry.offset += moved;
          return true;
        }
        this.gone.push({ first: first(entry), last: Math.max(last(entry) + moved, first(entry)) });
        return false;
      });
    }
    return this.entries.length < before;
  }

  clear(): boolean {
    const had = this.entries.length > 0 || this.otherTruth.length > 0;
    this.entries = [];
    this.otherTruth = [];
    this.gone = [];
    this.version = undefined;
    return had;
  }

  /** Whether a line is in a function that was edited since the server spoke of it. */
  isStale(line: number): boolean {
    return this.gone.some((place) => place.first <= line && line <= place.last);
  }

  /** Whether there is such a function. */
  get hasStale(): boolean {
    return this.gone.length > 0;
  }

  /** The innermost function that holds a line. */
  at(line: number): Entry | undefined {
    return this.entries.filter((entry) => first(entry) <= line && line <= last(entry)).at(-1);
  }

  /** The functions that have lines between two lines, both included. */
  between(from: number, to: number): Entry[] {
    return this.entries.filter((entry) => first(entry) <= to && last(entry) >= from);
  }
}

/** The ground-truth lines of a finding. */
export function trueLines(finding: Finding): number[] {
  const lines = new Set(finding.alignment?.lines ?? []);
  for (const line of finding.lines) {
    if (line.groundTruth === true) {
      lines.add(line.line);
    }
  }
  return [...lines].sort((one, other) => one - other);
}

/** Whether a line is one of the most relevant; the least relevant one of a function, whose score is 0, never is. */
export function isTop(line: Line, count: number): boolean {
  return line.rank <= count && line.score > 0;
}

/** The most relevant lines, best first. */
export function topLines(finding: Finding, count: number): Line[] {
  return finding.lines.filter((line) => isTop(line, count)).sort((one, other) => one.rank - other.rank);
}
