// What the server says beyond LSP, as docs/protocol.md describes it. Lines count from 0.

export interface FunctionInfo {
  name: string;
  kind: string;
  startLine: number;
  endLine: number;
}

export interface Line {
  line: number;
  score: number;
  raw: number;
  rank: number;
  groundTruth?: boolean;
  text: string;
}

export interface Alignment {
  da: number | null;
  reason?: string;
  wouldBe?: number | null;
  nullAllLines?: number | null;
  nullPermutation?: number | null;
  ifa?: number | null;
  topK?: Record<string, boolean>;
  unmatched: number;
  /** Why it is not certain that the ground truth is this function's. */
  foundBy?: string;
  outsideWindow: number;
  policy: string;
  label?: string;
  lines: number[];
  perAnnotator: Record<string, number | null>;
}

export interface Verdict {
  function: FunctionInfo;
  probability: number;
  threshold: number;
  flagged: boolean;
  ignored?: string;
  alignment?: Alignment;
}

export interface Finding extends Verdict {
  model: { name: string; sha256: string };
  executionProvider: string;
  method: string;
  profile: string;
  truncated: boolean;
  windows: number;
  lines: Line[];
  unseenLines: number[];
  completenessGap?: number;
}

export interface VersionedDocument {
  uri: string;
  version: number;
}

export interface DocumentFinding extends Finding {
  textDocument: VersionedDocument;
}

export interface Relevance {
  textDocument: VersionedDocument;
  functions: Finding[];
  /** Ground truth in the other functions. */
  groundTruth?: { line: number; approximate?: boolean }[];
}

export interface Functions {
  textDocument: VersionedDocument;
  functions: Verdict[];
}

export interface Status {
  health: 'ok' | 'warning' | 'error';
  quiescent: boolean;
  message?: string;
  model?: string;
  executionProvider?: string;
  method?: string;
  methods?: string[];
  layers?: number;
  models?: string[];
}

export interface Position {
  line: number;
  character: number;
}

export interface Place {
  textDocument: { uri: string };
  position: Position;
}

export interface MethodResult {
  method: string;
  completenessGap?: number;
  spearman: Record<string, number | null>;
  lines: Line[];
}

export interface MethodComparison extends Omit<Verdict, 'alignment' | 'ignored'> {
  textDocument: VersionedDocument;
  model: { name: string; sha256: string };
  executionProvider: string;
  profile: string;
  methods: MethodResult[];
  failed: { method: string; reason: string }[];
}

export interface ModelComparison {
  textDocument: VersionedDocument;
  models: Finding[];
  spearman: number | null;
}

export interface PairComparison {
  before: Finding & { source: string };
  after: Finding & { source: string };
  /** What the version of git was found by; null beside the other half of a pair. */
  revision: { name: string; commit: string; byDefault: boolean } | null;
  outcome: string | null;
  lines: { before: number | null; after: number | null; moved: number | null }[];
}

export interface Analysis {
  files: number;
  functions: number;
  flagged: { uri: string; function: FunctionInfo; probability: number; threshold: number }[];
  ignored: number;
  failed: { uri: string; function: string; reason: string }[];
  unreadable: string[];
}

export interface Report {
  file: string;
  flagged: number;
  ignored: number;
}

export interface RelevantLine {
  textDocument: VersionedDocument;
  range: { start: Position; end: Position };
  function: FunctionInfo;
  line: Line;
}

export interface Written {
  file: string;
  message: string;
}
