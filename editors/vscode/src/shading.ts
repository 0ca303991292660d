// What is drawn over editors: shaded lines, scores, marks of ground truth, unseen lines.
//
// Only what is near the visible lines is drawn, so that a large file costs no more than a small one; the marks of ground
// truth are drawn everywhere, since the overview ruler shows the whole file.

import * as vscode from 'vscode';
import type { Server } from './client';
import { isOurs, openDocument } from './documents';
import { type Entry, isTop, Overlay, trueLines } from './overlay';
import type { Relevance } from './protocol';
import { label, LIGHT_TEXT, step, STEPS } from './scale';
import { timed } from './timing';

const MARGIN_LINES = 80;
// After this many lines of scrolling the surroundings are drawn.
const SLACK_LINES = 40;

interface Drawn {
  from: number;
  to: number;
  /** Of each decoration type, what was set, as text. */
  set: Map<vscode.TextEditorDecorationType, string>;
}

type Settings = { shading: 'colour' | 'bars' | 'off'; scores: 'off' | 'top' | 'all'; top: number } & Record<
  'truth' | 'unseen',
  boolean
>;

export class Shading implements vscode.Disposable {
  private readonly onDark: vscode.TextEditorDecorationType[];
  private readonly onLight: vscode.TextEditorDecorationType[];
  private readonly score: vscode.TextEditorDecorationType;
  private readonly truth: vscode.TextEditorDecorationType;
  private readonly unseen: vscode.TextEditorDecorationType;
  private readonly overlays = new Map<string, Overlay>();
  private readonly drawn = new WeakMap<vscode.TextEditor, Drawn>();
  /** The version of the text when an editor was drawn last. */
  private readonly versions = new WeakMap<vscode.TextEditor, number>();
  private readonly disposables: vscode.Disposable[] = [];
  private readonly changed = new vscode.EventEmitter<vscode.TextDocument>();

  /** Switched by the command; not kept. */
  isShown = true;
  /** What is known of a document changed. */
  readonly onChanged = this.changed.event;

  constructor(
    private readonly server: Server,
    extensionUri: vscode.Uri,
  ) {
    const whole = { isWholeLine: true, rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed };
    const shade = (index: number) => ({
      ...whole,
      backgroundColor: new vscode.ThemeColor(`linelens.heat${index + 1}`),
    });
    const types = (of: (index: number) => vscode.DecorationRenderOptions) =>
      Array.from({ length: STEPS }, (_, index) => vscode.window.createTextEditorDecorationType(of(index)));
    this.onDark = types(shade);
    // The interface has no filters; a property that takes CSS as it is, and changes nothing itself, carries one. What
    // changes text costs more, so dark themes go without.
    this.onLight = types((index) => ({ ...shade(index), cursor: `text; filter: brightness(${LIGHT_TEXT})` }));
    this.score = vscode.window.createTextEditorDecorationType({
      ...whole,
      after: { color: new vscode.ThemeColor('linelens.score'), margin: '0 0 0 2em' },
    });
    const icon = (name: string) => vscode.Uri.joinPath(extensionUri, 'media', name);
    this.truth = vscode.window.createTextEditorDecorationType({
      ...whole,
      gutterIconPath: icon('truth-dark.svg'),
      gutterIconSize: 'contain',
      light: { gutterIconPath: icon('truth-light.svg') },
      overviewRulerColor: new vscode.ThemeColor('linelens.groundTruth'),
      overviewRulerLane: vscode.OverviewRulerLane.Center,
    });
    this.unseen = vscode.window.createTextEditorDecorationType({
      ...whole,
      color: new vscode.ThemeColor('linelens.unseen'),
      after: { color: new vscode.ThemeColor('linelens.score'), margin: '0 0 0 2em' },
    });
    this.server.showsHints = () => {
      const { shading, scores } = this.settings();
      return this.isShown && scores === 'off' && shading !== 'bars';
    };
    this.server.isStale = (document, line) => this.overlay(document)?.isStale(line) === true;
    this.disposables.push(
      this.server.onRelevance(
        timed('linelens/relevance', (params) => {
          this.take(params);
        }),
      ),
      this.server.onChanged(() => {
        if (this.server.state !== 'running' || this.server.status?.health === 'error') {
          this.clear();
        }
      }),
      vscode.workspace.onDidChangeTextDocument(
        timed('an edit', (event) => {
          this.edited(event);
        }),
      ),
      vscode.workspace.onDidCloseTextDocument((document) => {
        this.forget(document);
      }),
      vscode.window.onDidChangeVisibleTextEditors(
        timed('new editors', (editors) => {
          editors.forEach((editor) => {
            this.draw(editor);
          });
        }),
      ),
      vscode.window.onDidChangeTextEditorVisibleRanges(
        timed('scrolling', ({ textEditor }) => {
          this.scrolled(textEditor);
        }),
      ),
      vscode.window.onDidChangeActiveColorTheme(() => {
        this.redraw();
      }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration('linelens')) {
          this.redraw();
        }
      }),
    );
  }

  private settings(): Settings {
    const settings = vscode.workspace.getConfiguration('linelens');
    return {
      shading: settings.get('shading', 'colour'),
      scores: settings.get('scores', 'off'),
      top: settings.get('topLines', 5),
      truth: settings.get<boolean>('groundTruthMarks', true),
      unseen: settings.get<boolean>('dimUnseen', true),
    };
  }

  /** What is known of a document. */
  overlay(document: vscode.TextDocument): Overlay | undefined {
    return this.overlays.get(document.uri.toString());
  }

  private take(params: Relevance): void {
    const document = openDocument(params.textDocument.uri);
    if (document === undefined || !isOurs(document)) {
      return;
    }
    const overlay = this.overlay(document) ?? new Overlay();
    this.overlays.set(document.uri.toString(), overlay);
    const wasStale = overlay.hasStale;
    const truth = params.groundTruth?.map(({ line }) => line);
    if (overlay.replace(params.functions, params.textDocument.version, document.version, truth)) {
      this.drawDocument(document);
      this.changed.fire(document);
      if (wasStale) {
        this.server.refreshAfterEdit(document);
      }
    }
  }

  private edited({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const overlay = this.overlay(document);
    if (overlay === undefined || contentChanges.length === 0) {
      return;
    }
    const isGone = overlay.edit(contentChanges.map(({ range: { start, end }, text }) => ({ start, end, text })));
    if (isGone) {
      this.drawDocument(document);
      this.changed.fire(document);
    }
    if (overlay.hasStale) {
      this.server.refreshAfterEdit(document);
    }
  }

  private forget(document: vscode.TextDocument): void {
    this.overlays.delete(document.uri.toString());
    this.changed.fire(document);
  }

  /** Nothing stays shaded. */
  clear(): void {
    const documents = [...this.overlays.keys()];
    this.overlays.clear();
    vscode.window.visibleTextEditors.forEach((editor) => {
      this.draw(editor);
    });
    for (const uri of documents) {
      const document = openDocument(uri);
      if (document !== undefined) {
        this.changed.fire(document);
      }
    }
  }

  toggle(): void {
    this.isShown = !this.isShown;
    this.redraw();
  }

  /** Draws everything anew, after settings, themes or switches changed. */
  readonly redraw = timed('drawing anew', () => {
    for (const editor of vscode.window.visibleTextEditors) {
      this.draw(editor, true);
      if (isOurs(editor.document)) {
        this.server.refreshHints(editor.document);
      }
    }
  });

  private drawDocument(document: vscode.TextDocument): void {
    vscode.window.visibleTextEditors
      .filter((editor) => editor.document === document)
      .forEach((editor) => {
        this.draw(editor);
      });
  }

  private scrolled(editor: vscode.TextEditor): void {
    const drawn = this.drawn.get(editor);
    const visible = visibleLines(editor);
    const isNear =
      drawn !== undefined && visible.from - SLACK_LINES >= drawn.from && visible.to + SLACK_LINES <= drawn.to;
    const isAll = drawn !== undefined && drawn.from === 0 && drawn.to >= editor.document.lineCount;
    if (!isNear && !isAll && this.overlay(editor.document) !== undefined) {
      this.draw(editor);
    }
  }

  /** Draws an editor; what is there already is set again only if that is wanted. */
  private draw(editor: vscode.TextEditor, anew = false): void {
    if (!isOurs(editor.document)) {
      return;
    }
    const visible = visibleLines(editor);
    const window = { from: Math.max(visible.from - MARGIN_LINES, 0), to: visible.to + MARGIN_LINES };
    const overlay = this.overlay(editor.document);
    const settings = this.settings();
    const options = new Map<vscode.TextEditorDecorationType, vscode.DecorationOptions[]>();
    const add = (type: vscode.TextEditorDecorationType, line: number, text?: string) => {
      if (line < 0 || line >= editor.document.lineCount) {
        return;
      }
      const range = new vscode.Range(line, 0, line, text === undefined ? 0 : Number.MAX_SAFE_INTEGER);
      const option = text === undefined ? { range } : { range, renderOptions: { after: { contentText: text } } };
      const list = options.get(type);
      if (list === undefined) {
        options.set(type, [option]);
      } else {
        list.push(option);
      }
    };
    if (overlay !== undefined && this.isShown) {
      for (const entry of overlay.between(window.from, window.to)) {
        this.drawLines(entry, settings, add);
      }
      if (settings.truth) {
        const shown = overlay.entries.flatMap(({ finding, offset }) => trueLines(finding).map((line) => line + offset));
        new Set([...shown, ...overlay.otherTruth]).forEach((line) => {
          add(this.truth, line);
        });
      }
    }
    const before = this.drawn.get(editor)?.set ?? new Map<vscode.TextEditorDecorationType, string>();
    const set = new Map<vscode.TextEditorDecorationType, string>();
    for (const type of [...this.onDark, ...this.onLight, this.score, this.truth, this.unseen]) {
      const wanted = options.get(type) ?? [];
      const text = wanted
        .map(({ range, renderOptions }) => `${range.start.line}${renderOptions?.after?.contentText ?? ''}`)
        .join();
      // After an edit VS Code has moved what was set before.
      if (text !== (before.get(type) ?? '') || anew || (text !== '' && this.isMoved(editor))) {
        editor.setDecorations(type, wanted);
      }
      set.set(type, text);
    }
    this.drawn.set(editor, { ...window, set });
    this.versions.set(editor, editor.document.version);
  }

  private isMoved(editor: vscode.TextEditor): boolean {
    return this.versions.get(editor) !== editor.document.version;
  }

  private drawLines(
    { finding, offset }: Entry,
    { shading, scores, top, unseen }: Settings,
    add: (type: vscode.TextEditorDecorationType, line: number, text?: string) => void,
  ): void {
    const { Light, HighContrastLight } = vscode.ColorThemeKind;
    const isLight = [Light, HighContrastLight].includes(vscode.window.activeColorTheme.kind);
    const heats = isLight ? this.onLight : this.onDark;
    for (const line of finding.lines) {
      const heat = heats[step(line.score) - 1];
      if (shading === 'colour' && heat !== undefined) {
        add(heat, line.line + offset);
      }
      const isScored = scores === 'all' || (scores === 'top' && isTop(line, top)) || shading === 'bars';
      if (isScored) {
        add(this.score, line.line + offset, label(line));
      }
    }
    let before = -2;
    for (const line of unseen ? finding.unseenLines : []) {
      add(this.unseen, line + offset, line === before + 1 ? undefined : 'not seen by the model');
      before = line;
    }
  }

  dispose(): void {
    [...this.disposables, ...this.onDark, ...this.onLight, this.score, this.truth, this.unseen, this.changed].forEach(
      (one) => {
        one.dispose();
      },
    );
  }
}

function visibleLines(editor: vscode.TextEditor): { from: number; to: number } {
  const lines = editor.visibleRanges.flatMap((range) => [range.start.line, range.end.line]);
  return { from: Math.min(...lines, Number.MAX_SAFE_INTEGER), to: Math.max(...lines, 0) };
}
