// When each method was last computed for each function, as far as this window saw it.

import type { Finding } from './protocol';

export interface Computed {
  time: Date;
  /** Another one: another result. */
  mark: number;
  probability: number;
  threshold: number;
}

const MOST_FUNCTIONS = 500;

export class History {
  private readonly functions = new Map<string, Map<string, Computed>>();

  note(uri: string, finding: Finding, time = new Date()): void {
    const key = `${uri}#${finding.function.name}`;
    const methods = this.functions.get(key) ?? new Map<string, Computed>();
    const known = methods.get(finding.method);
    const start = finding.function.startLine - 1;
    const mark = finding.lines.reduce((sum, line) => sum + line.raw * (line.line - start), finding.probability);
    if (known?.mark !== mark) {
      methods.set(finding.method, { time, mark, probability: finding.probability, threshold: finding.threshold });
    }
    this.functions.delete(key);
    this.functions.set(key, methods);
    const oldest = this.functions.keys().next();
    if (this.functions.size > MOST_FUNCTIONS && oldest.done !== true) {
      this.functions.delete(oldest.value);
    }
  }

  of(uri: string, name: string, method: string): Computed | undefined {
    return this.functions.get(`${uri}#${name}`)?.get(method);
  }

  /** Another model, or other settings. */
  clear(): void {
    this.functions.clear();
  }
}
