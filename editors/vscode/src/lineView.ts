// The side bar: the functions of the file with their verdicts, and their most relevant lines.

import * as vscode from 'vscode';
import type { Server } from './client';
import type { Cursor } from './cursor';
import { isOurs } from './documents';
import type { Finding, Line, Verdict } from './protocol';
import { first, topLines } from './overlay';
import { alignment, label, probability, signed } from './scale';
import { sorted } from './verdicts';
import type { Shading } from './shading';
import { timed } from './timing';

// Verdicts of a large file come in quick succession.
const REFRESH_MS = 150;

interface FunctionNode {
  kind: 'function';
  uri: string;
  verdict: Verdict;
  finding: Finding | undefined;
  offset: number;
}

type Node = FunctionNode | { kind: 'line'; uri: string; line: Line; offset: number; of: string };

function idOf({ uri, verdict }: FunctionNode): string {
  return `${uri}#${verdict.function.name}#${verdict.function.startLine}`;
}

/** What is seen of a node and of what is below it. */
function seen(node: Node, top: number): string {
  if (node.kind === 'line') {
    return '';
  }
  const { uri, verdict, finding, offset } = node;
  const { name, startLine } = verdict.function;
  const lines = finding === undefined ? [] : topLines(finding, top);
  const below = lines.map((line) => `${line.line + offset} ${line.rank} ${label(line)} ${line.text}`);
  const known = alignment((finding ?? verdict).alignment);
  return [uri, name, startLine, verdict.probability, verdict.flagged, verdict.ignored ?? '', known, ...below].join(' ');
}

export class LineView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<undefined>();
  private readonly view: vscode.TreeView<Node>;
  private readonly disposables: vscode.Disposable[];
  private timer: NodeJS.Timeout | undefined;
  private document: vscode.TextDocument | undefined;
  private nodes: Node[] = [];
  private isFetched = false;
  /** The function that was opened last since the cursor came into it. */
  private opened: string | undefined;
  /** All that is seen of the nodes, as text. */
  private shown = '';

  readonly onDidChangeTreeData = this.changed.event;

  constructor(
    private readonly server: Server,
    private readonly shading: Shading,
    private readonly cursor: Cursor,
  ) {
    this.view = vscode.window.createTreeView('linelens.lines', { treeDataProvider: this, showCollapseAll: true });
    const later = () => {
      this.later();
    };
    this.disposables = [
      this.view,
      this.changed,
      server.onChanged(later),
      shading.onChanged(later),
      cursor.onAnswered(() => {
        void this.follow();
      }),
      vscode.window.onDidChangeActiveTextEditor(later),
      this.view.onDidChangeVisibility(later),
    ];
    this.later();
  }

  private later(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.refresh();
    }, REFRESH_MS);
  }

  private choose(): void {
    const active = vscode.window.activeTextEditor?.document;
    if (active !== undefined && isOurs(active)) {
      this.document = active;
    } else if (this.document?.isClosed === true || vscode.window.visibleTextEditors.length === 0) {
      this.document = undefined;
    }
    void vscode.commands.executeCommand('setContext', 'linelens.state', this.state());
  }

  private async refresh(): Promise<void> {
    this.choose();
    // A hidden tree keeps what it shows; VS Code asks for it when it is seen for the first time.
    if (this.view.visible) {
      await this.askServer();
    }
  }

  private async askServer(): Promise<void> {
    const { document, server } = this;
    if (document === undefined || !server.isRunning) {
      this.show([]);
      return;
    }
    const uri = document.uri.toString();
    const told = await server.functions(uri);
    // Meanwhile the text may have changed; then the server says so again.
    if (told?.textDocument.version === document.version && this.document === document) {
      this.take(uri, document, told.functions);
    }
  }

  private readonly take = timed('the side bar', (uri: string, document: vscode.TextDocument, verdicts: Verdict[]) => {
    const overlay = this.shading.overlay(document);
    const found = new Map(overlay?.entries.map((entry) => [first(entry), entry] as const));
    const nodes = verdicts.map((verdict) => {
      const entry = found.get(verdict.function.startLine);
      return { kind: 'function' as const, uri, verdict, finding: entry?.finding, offset: entry?.offset ?? 0 };
    });
    this.show(sorted(nodes));
  });

  private show(nodes: Node[]): void {
    // A tree that is drawn anew loses what was opened and where it was scrolled to.
    const top = vscode.workspace.getConfiguration('linelens').get('topLines', 5);
    const shown = nodes.map((node) => seen(node, top)).join('\n');
    if (shown !== this.shown) {
      this.nodes = nodes;
      this.shown = shown;
      if (this.isFetched) {
        this.changed.fire(undefined);
      }
    }
    void this.follow();
    const flagged = nodes.filter(
      (node) => node.kind === 'function' && node.verdict.flagged && node.verdict.ignored === undefined,
    ).length;
    this.view.description =
      this.document === undefined || nodes.length === 0
        ? ''
        : `${vscode.workspace.asRelativePath(this.document.uri)}: ${flagged} of ${nodes.length} flagged`;
  }

  private state(): 'none' | 'stopped' | 'starting' | 'noModel' | 'running' {
    if (this.document === undefined) {
      return 'none';
    }
    const { state, status } = this.server;
    return state === 'running' && status?.health === 'error' ? 'noModel' : state;
  }

  async getChildren(node?: Node): Promise<Node[]> {
    if (node === undefined) {
      // An empty tree now, and its nodes a moment later, would be a flicker; VS Code may even miss the moment.
      if (!this.isFetched) {
        this.choose();
        await this.askServer();
        this.isFetched = true;
      }
      return this.nodes;
    }
    if (node.kind === 'line' || node.finding === undefined) {
      return [];
    }
    const { uri, offset, finding } = node;
    const top = vscode.workspace.getConfiguration('linelens').get('topLines', 5);
    return topLines(finding, top).map((line) => ({ kind: 'line', uri, line, offset, of: finding.function.name }));
  }

  /** For `reveal`: the functions are the roots, and no other nodes are revealed. */
  getParent(): undefined {
    return undefined;
  }

  /** The function under the cursor, as far as it can be opened. */
  private current(): Node | undefined {
    const place = this.cursor.finding()?.function;
    return this.nodes.find(
      (node) =>
        node.kind === 'function' &&
        node.finding !== undefined &&
        node.verdict.function.name === place?.name &&
        node.verdict.function.startLine === place.startLine,
    );
  }

  /** Opens the function that the cursor came into. */
  private async follow(): Promise<void> {
    const node = this.current();
    const id = node?.kind === 'function' ? idOf(node) : undefined;
    if (node === undefined || id === this.opened || !this.view.visible) {
      return;
    }
    this.opened = id;
    try {
      await this.view.reveal(node, { select: false, focus: false, expand: true });
    } catch {
      // The tree is being drawn anew.
      this.opened = undefined;
    }
  }

  getTreeItem(node: Node): vscode.TreeItem {
    return node.kind === 'function' ? this.functionItem(node) : this.lineItem(node);
  }

  private functionItem(node: FunctionNode): vscode.TreeItem {
    const { uri, verdict, finding } = node;
    const { name } = verdict.function;
    const current = this.current();
    const isOpen = current?.kind === 'function' && current.verdict === verdict;
    const { None, Collapsed, Expanded } = vscode.TreeItemCollapsibleState;
    const item = new vscode.TreeItem(name, finding === undefined ? None : isOpen ? Expanded : Collapsed);
    const p = probability(verdict.probability, verdict.threshold);
    const known = alignment((finding ?? verdict).alignment);
    const verdictText = verdict.ignored !== undefined ? 'ignored' : verdict.flagged ? 'flagged' : 'not flagged';
    item.id = idOf(node);
    item.description = [`p ${p}`, ...(known === '' ? [] : [known]), ...(verdict.ignored ? ['ignored'] : [])].join(
      ' · ',
    );
    item.iconPath =
      verdictText === 'flagged'
        ? new vscode.ThemeIcon('flame', new vscode.ThemeColor('list.warningForeground'))
        : new vscode.ThemeIcon(verdictText === 'ignored' ? 'circle-slash' : 'circle-outline');
    const why = verdict.ignored === undefined ? '' : `, because: ${verdict.ignored}`;
    item.tooltip = `${name}: p ${p}, ${verdictText}${why} (threshold ${verdict.threshold})\n${known}`.trim();
    item.accessibilityInformation = { label: `${name}, probability ${p}, ${verdictText}${known && `, ${known}`}` };
    item.command = {
      command: 'linelens.reveal',
      title: 'Go to Function',
      arguments: [uri, verdict.function.startLine],
    };
    return item;
  }

  private lineItem({ uri, line, offset, of }: Node & { kind: 'line' }): vscode.TreeItem {
    const number = line.line + offset + 1;
    const item = new vscode.TreeItem(`${number}  ${label(line)}`);
    item.id = `${uri}#${of}#line${number}`;
    item.description = line.text.trim();
    const truth = line.groundTruth === true ? ', ground truth' : '';
    item.tooltip = `line ${number}: rank ${line.rank}, score ${line.score.toFixed(2)}, raw ${signed(line.raw.toPrecision(3))}${truth}`;
    item.accessibilityInformation = {
      label: `line ${number}, score ${line.score.toFixed(2)}, rank ${line.rank}${truth}: ${line.text.trim()}`,
    };
    item.command = { command: 'linelens.reveal', title: 'Go to Line', arguments: [uri, line.line + offset] };
    return item;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.disposables.forEach((one) => {
      one.dispose();
    });
  }
}
