// Follows the cursor: asks for the function that holds it, after a pause, and only if it may be another one.

import * as vscode from 'vscode';
import type { Server } from './client';
import { activeEditor, placeOf } from './documents';
import type { DocumentFinding } from './protocol';
import { timed } from './timing';

interface Answer {
  uri: string;
  version: number;
  line: number;
  character: number;
  finding: DocumentFinding | undefined;
}

export class Cursor implements vscode.Disposable {
  private timer: NodeJS.Timeout | undefined;
  private asking: vscode.CancellationTokenSource | undefined;
  private answer: Answer | undefined;
  private basis = '';
  private readonly answered = new vscode.EventEmitter<DocumentFinding | undefined>();
  private readonly disposables: vscode.Disposable[];

  /** What is known of the function under the cursor changed. */
  readonly onAnswered = this.answered.event;

  constructor(private readonly server: Server) {
    const moved = timed('the cursor', () => {
      this.moved();
    });
    this.disposables = [
      vscode.window.onDidChangeTextEditorSelection(moved),
      vscode.window.onDidChangeActiveTextEditor(moved),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (document === activeEditor()?.document) {
          moved();
        }
      }),
      // When it is opened again, the server must hear of its cursor.
      vscode.workspace.onDidCloseTextDocument((document) => {
        if (this.answer?.uri === document.uri.toString()) {
          this.forget();
        }
      }),
      this.server.onChanged(
        timed('a status', () => {
          const { status } = this.server;
          const basis = `${status?.model ?? ''} ${status?.method ?? ''} ${status?.health ?? ''}`;
          if (basis !== this.basis) {
            this.basis = basis;
            this.forget();
            this.moved();
          }
        }),
      ),
    ];
  }

  /** The finding of the function under the cursor, if it is known and of this text. */
  finding(): DocumentFinding | undefined {
    const editor = activeEditor();
    const finding = this.answer?.finding;
    const line = editor?.selection.active.line ?? -1;
    const isCurrent =
      editor !== undefined &&
      this.answer?.uri === editor.document.uri.toString() &&
      this.answer.version === editor.document.version;
    if (!isCurrent || finding === undefined) {
      return undefined;
    }
    return finding.function.startLine <= line && line <= finding.function.endLine ? finding : undefined;
  }

  /** The next move asks in any case. */
  forget(): void {
    this.asking?.cancel();
    this.answer = undefined;
    this.answered.fire(undefined);
  }

  /** Asks after the pause. */
  moved(): void {
    clearTimeout(this.timer);
    const settings = vscode.workspace.getConfiguration('linelens');
    this.answered.fire(this.finding());
    if (!settings.get<boolean>('followCursor', true)) {
      return;
    }
    this.timer = setTimeout(
      timed('following the cursor', () => {
        void this.ask(true);
      }),
      settings.get('followDelayMs', 150),
    );
  }

  /** Asks now. Quietly: what goes wrong is not said, and what is known is not asked for again. */
  async ask(quietly: boolean, at?: vscode.Position): Promise<DocumentFinding | null | undefined> {
    const editor = activeEditor();
    if (editor === undefined || (quietly && (!this.server.isRunning || this.server.status?.health === 'error'))) {
      return undefined;
    }
    const { document } = editor;
    const position = at ?? editor.selection.active;
    if (quietly && this.isAnswered(document, position)) {
      return this.answer?.finding;
    }
    this.asking?.cancel();
    const asking = new vscode.CancellationTokenSource();
    this.asking = asking;
    const asked = { uri: document.uri.toString(), version: document.version, ...placeOf(document, position).position };
    const finding = await this.server.explain(placeOf(document, position), quietly, asking.token);
    if (finding !== undefined && !asking.token.isCancellationRequested) {
      this.answer = { ...asked, finding: finding ?? undefined };
      this.answered.fire(this.finding());
    }
    return finding;
  }

  private isAnswered(document: vscode.TextDocument, position: vscode.Position): boolean {
    const { answer } = this;
    if (answer?.uri !== document.uri.toString() || answer.version !== document.version) {
      return false;
    }
    const place = answer.finding?.function;
    // Other functions can stand on a function's first and last line.
    const isInside = place !== undefined && place.startLine < position.line && position.line < place.endLine;
    return isInside || (answer.line === position.line && answer.character === position.character);
  }

  dispose(): void {
    clearTimeout(this.timer);
    [...this.disposables, this.answered].forEach((one) => {
      one.dispose();
    });
  }
}
