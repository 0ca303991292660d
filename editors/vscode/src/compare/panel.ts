// The panel in which comparisons are shown.

import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import { reveal } from '../documents';
import { page } from './html';
import type { Table } from './table';

export class ComparePanel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private table: Table | undefined;
  private again: (() => Promise<unknown>) | undefined;

  /** Shows a table; `again` makes it anew after another method was chosen in it. */
  show(table: Table, again?: () => Promise<unknown>, factsFirst = false): void {
    this.table = table;
    this.again = again;
    this.panel ??= this.create();
    this.panel.title = table.title;
    this.panel.webview.html = page(table, randomBytes(16).toString('hex'), factsFirst);
    this.panel.reveal(undefined, false);
  }

  private create(): vscode.WebviewPanel {
    const panel = vscode.window.createWebviewPanel(
      'linelens.compare',
      'linelens',
      { viewColumn: vscode.ViewColumn.Beside },
      { enableScripts: true, localResourceRoots: [], enableFindWidget: true },
    );
    panel.webview.onDidReceiveMessage((message: unknown) => {
      void this.received(message);
    });
    panel.onDidDispose(() => {
      this.panel = undefined;
    });
    return panel;
  }

  private async received(message: unknown): Promise<void> {
    const { line, method } = message as { line?: unknown; method?: unknown };
    if (typeof line === 'number' && Number.isInteger(line) && line >= 0 && this.table !== undefined) {
      await reveal(vscode.Uri.parse(this.table.uri), line);
    } else if (typeof method === 'string') {
      await vscode.commands.executeCommand('linelens.setMethod', method);
      await this.again?.();
    }
  }

  dispose(): void {
    this.panel?.dispose();
  }
}
