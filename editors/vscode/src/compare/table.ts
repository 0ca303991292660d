// Comparisons as plain tables: methods, models or versions side by side over the source.

import type {
  Alignment,
  DocumentFinding,
  Finding,
  Line,
  MethodComparison,
  ModelComparison,
  PairComparison,
} from '../protocol';
import { agreement, probability, signed } from '../scale';

export interface Cell {
  score: number;
  raw: number;
  rank: number;
}

export interface Column {
  name: string;
  /** Short facts under the name. */
  facts: string[];
  /** The method that a button in the head chooses. */
  method?: string;
  isCurrent?: boolean;
}

export interface Row {
  /** The line to go to, and its number as shown. */
  line: number | undefined;
  number: string;
  text: string;
  isTrue: boolean;
  isUnseen: boolean;
  cells: (Cell | undefined)[];
  /** For versions: what the score moved by. */
  moved?: string;
}

export interface FactTable {
  title: string;
  note?: string;
  head: string[];
  rows: string[][];
}

export interface Table {
  title: string;
  subtitle: string;
  uri: string;
  columns: Column[];
  rows: Row[];
  facts: FactTable[];
  notes: string[];
}

const number = (value: number | null | undefined, digits = 2): string =>
  typeof value === 'number' ? signed(value.toFixed(digits)) : '–';

function cell(line: Line | undefined): Cell | undefined {
  return line && { score: line.score, raw: line.raw, rank: line.rank };
}

function verdict(finding: { probability: number; threshold: number; flagged: boolean }): string {
  const flagged = finding.flagged ? 'flagged' : 'not flagged';
  return `p ${probability(finding.probability, finding.threshold)}, ${flagged} (threshold ${finding.threshold})`;
}

/** Short facts for the head of a column. */
function verdictFacts(finding: Finding): string[] {
  const p = probability(finding.probability, finding.threshold);
  return [`p ${p}`, finding.flagged ? 'flagged' : 'not flagged'];
}

function alignmentFacts(finding: Finding | undefined): string[] {
  const known = finding?.alignment;
  if (known === undefined) {
    return [];
  }
  return [`DA ${agreement(known)}`, `null ${number(known.nullPermutation)}`];
}

/** Detection Alignment of each method, and what stands beside it. */
export function alignmentTable(findings: Finding[]): FactTable {
  const known = findings.filter((finding): finding is Finding & { alignment: Alignment } => 'alignment' in finding);
  const title = 'Detection Alignment';
  if (known.length === 0) {
    return {
      title,
      note: 'No ground truth is known for this function. Mark its flawed lines with “Toggle Ground-Truth Line”.',
      head: [],
      rows: [],
    };
  }
  const top = (finding: Finding & { alignment: Alignment }, k: string) => {
    const hit = finding.alignment.topK?.[k];
    return hit === undefined ? '–' : hit ? 'yes' : 'no';
  };
  const isDefault = known.some(({ alignment: { wouldBe } }) => typeof wouldBe === 'number');
  const reasons = [...new Set(known.map(({ alignment: { reason } }) => reason).filter((one) => one !== undefined))];
  const notes = [
    ...(isDefault ? ['DA is 0, since the function is not flagged; in brackets what it would be if it were.'] : []),
    ...(reasons.length === 0 ? [] : [`Undefined where ${reasons.join('; ')}.`]),
  ];
  return {
    title,
    ...(notes.length === 0 ? {} : { note: notes.join(' ') }),
    head: ['method', 'DA', 'null: permuted', 'null: all lines', 'IFA', 'in top 1', 'in top 3', 'in top 5'],
    rows: known.map((finding) => [
      finding.method,
      agreement(finding.alignment),
      number(finding.alignment.nullPermutation),
      number(finding.alignment.nullAllLines),
      number(finding.alignment.ifa, 0),
      top(finding, '1'),
      top(finding, '3'),
      top(finding, '5'),
    ]),
  };
}

/** Lines `start` to `end` of the source with the cells of each column. */
function rows(
  source: readonly string[],
  start: number,
  end: number,
  columns: Map<number, Line>[],
  findings: Finding[],
) {
  const truth = new Set(findings.flatMap((finding) => finding.alignment?.lines ?? []));
  const unseen = new Set(findings[0]?.unseenLines ?? []);
  const result: Row[] = [];
  for (let line = start; line <= end; line++) {
    const lines = columns.map((column) => column.get(line));
    result.push({
      line,
      number: String(line + 1),
      text: source[line] ?? '',
      isTrue: truth.has(line) || lines.some((one) => one?.groundTruth === true),
      isUnseen: unseen.has(line),
      cells: lines.map(cell),
    });
  }
  return result;
}

const byLine = (lines: Line[]): Map<number, Line> => new Map(lines.map((line) => [line.line, line]));

/** All methods on a function; `findings` are those of the methods, for what a comparison leaves out. */
export function ofMethods(
  comparison: MethodComparison,
  findings: DocumentFinding[],
  source: readonly string[],
  current: string,
): Table {
  const place = comparison.function;
  const columns = comparison.methods.map(({ method, completenessGap }): Column => {
    const finding = findings.find((one) => one.method === method);
    const facts = [
      ...alignmentFacts(finding),
      completenessGap === undefined ? '' : `gap ${completenessGap.toPrecision(2)}`,
    ];
    return { name: method, facts: facts.filter((fact) => fact !== ''), method, isCurrent: method === current };
  });
  const names = comparison.methods.map(({ method }) => method);
  return {
    title: `${place.name}: methods`,
    subtitle: `${verdict(comparison)} · ${comparison.model.name} on ${comparison.executionProvider} · profile ${comparison.profile}`,
    uri: comparison.textDocument.uri,
    columns,
    rows: rows(
      source,
      place.startLine,
      place.endLine,
      comparison.methods.map(({ lines }) => byLine(lines)),
      findings,
    ),
    facts: [
      alignmentTable(findings),
      {
        title: 'Rank correlation',
        note: 'Spearman’s ρ of the lines’ raw relevance; 1: the same order, −1: the opposite.',
        head: ['method', ...names],
        rows: comparison.methods.map(({ method, spearman }) => [
          method,
          ...names.map((name) => number(spearman[name])),
        ]),
      },
    ],
    notes: comparison.failed.map(({ method, reason }) => `${method} gave nothing: ${reason}`),
  };
}

/** Two detectors on a function. */
export function ofModels(comparison: ModelComparison, source: readonly string[]): Table {
  const findings = comparison.models;
  const place = findings[0]?.function ?? { name: '', kind: '', startLine: 0, endLine: -1 };
  return {
    title: `${place.name}: models`,
    subtitle: `rank correlation of the lines’ raw relevance: ${number(comparison.spearman)}`,
    uri: comparison.textDocument.uri,
    columns: findings.map((finding) => ({
      name: finding.model.name,
      facts: [finding.method, ...verdictFacts(finding), ...alignmentFacts(finding)],
    })),
    rows: rows(
      source,
      place.startLine,
      place.endLine,
      findings.map(({ lines }) => byLine(lines)),
      findings,
    ),
    facts: [],
    notes: [],
  };
}

/** What a person calls a version: a commit by what it was found by. */
function versionName(source: string, revision: PairComparison['revision']): string {
  if (source === 'document') {
    return 'this text';
  }
  return source === revision?.commit ? `${revision.name} (${source.slice(0, 7)})` : source;
}

/** Two versions of a function. */
export function ofPair(comparison: PairComparison, uri: string): Table {
  const { before, after, revision } = comparison;
  const sides = [before, after].map((side) => ({
    lines: byLine(side.lines),
    truth: new Set(side.alignment?.lines ?? []),
    unseen: new Set(side.unseenLines),
  }));
  const names = [before, after].map(({ source }) => versionName(source, revision));
  return {
    title: `${after.function.name}: versions`,
    subtitle: `${after.method} · ${after.model.name} on ${after.executionProvider}${comparison.outcome === null ? '' : ` · outcome ${comparison.outcome}`}`,
    uri,
    columns: [before, after].map((side, index) => ({
      name: names[index] ?? '',
      facts: [...verdictFacts(side), ...alignmentFacts(side)],
    })),
    rows: comparison.lines.map((pair) => {
      const places = [pair.before, pair.after];
      const lines = places.map((line, index) => (line === null ? undefined : sides[index]?.lines.get(line)));
      const has = (set: 'truth' | 'unseen') =>
        places.some((line, index) => line !== null && sides[index]?.[set].has(line) === true);
      const sign = pair.before === null ? '+' : pair.after === null ? '−' : ' ';
      return {
        line: pair.after ?? undefined,
        number: `${sign} ${places.map((line) => (line === null ? '' : String(line + 1))).join('/')}`,
        text: (lines[1] ?? lines[0])?.text ?? '',
        isTrue: has('truth') || lines.some((line) => line?.groundTruth === true),
        isUnseen: has('unseen'),
        cells: lines.map(cell),
        moved: pair.moved === null ? '' : signed(`${pair.moved > 0 ? '+' : ''}${pair.moved.toFixed(2)}`),
      };
    }),
    facts: [],
    notes: [],
  };
}
