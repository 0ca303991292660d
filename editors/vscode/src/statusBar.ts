// The status bar: model, execution provider, method, the verdict of the function under the cursor; busy, errors.

import * as vscode from 'vscode';
import type { Server } from './client';
import type { Cursor } from './cursor';
import { isOurs } from './documents';
import { alignment, count, probability } from './scale';

// Work that is done sooner is not worth a flicker.
const BUSY_AFTER_MS = 300;

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('linelens.status', vscode.StatusBarAlignment.Right, 100);
  private readonly disposables: vscode.Disposable[];
  private busyTimer: NodeJS.Timeout | undefined;
  private isBusy = false;

  constructor(
    private readonly server: Server,
    private readonly cursor: Cursor,
    private readonly isShown: () => boolean,
  ) {
    this.item.name = 'linelens';
    this.item.command = 'linelens.chooseMethod';
    this.disposables = [
      this.item,
      server.onChanged(() => {
        this.noteBusy();
        this.update();
      }),
      cursor.onAnswered(() => {
        this.update();
      }),
      vscode.window.onDidChangeVisibleTextEditors(() => {
        this.update();
      }),
    ];
    this.update();
  }

  private noteBusy(): void {
    const busy = this.server.state === 'starting' || this.server.status?.quiescent === false;
    clearTimeout(this.busyTimer);
    if (!busy) {
      this.isBusy = false;
    } else if (!this.isBusy) {
      this.busyTimer = setTimeout(() => {
        this.isBusy = true;
        this.update();
      }, BUSY_AFTER_MS);
    }
  }

  update(): void {
    const isInUse = vscode.window.visibleTextEditors.some(({ document }) => isOurs(document));
    if (!isInUse && this.server.problem === undefined) {
      this.item.hide();
      return;
    }
    const { text, isError, isWarning } = this.text();
    this.item.text = text;
    this.item.backgroundColor = isError
      ? new vscode.ThemeColor('statusBarItem.errorBackground')
      : isWarning
        ? new vscode.ThemeColor('statusBarItem.warningBackground')
        : undefined;
    this.item.command = isError ? 'linelens.showLog' : 'linelens.chooseMethod';
    this.item.tooltip = this.tooltip();
    this.item.accessibilityInformation = { label: text.replace(/\$\([^)]*\)\s*/g, ''), role: 'button' };
    this.item.show();
  }

  private text(): { text: string; isError: boolean; isWarning: boolean } {
    const { status, state } = this.server;
    if (state === 'stopped') {
      return { text: '$(error) linelens: not running', isError: true, isWarning: false };
    }
    if (status?.health === 'error') {
      return { text: '$(error) linelens: no model', isError: true, isWarning: false };
    }
    if (state === 'starting' || status?.model === undefined) {
      return { text: '$(loading~spin) linelens: starting', isError: false, isWarning: false };
    }
    const finding = this.cursor.finding();
    const parts = [status.model, status.executionProvider ?? '', finding?.method ?? status.method ?? ''];
    if (finding !== undefined) {
      const verdict = finding.ignored !== undefined ? ' ignored' : finding.flagged ? ' flagged' : '';
      parts.push(`p ${probability(finding.probability, finding.threshold)}${verdict}`);
    }
    const icon = this.isBusy ? '$(loading~spin)' : this.isShown() ? '$(flame)' : '$(eye-closed)';
    return { text: `${icon} ${parts.join(' · ')}`, isError: false, isWarning: status.health === 'warning' };
  }

  private tooltip(): vscode.MarkdownString {
    const tooltip = new vscode.MarkdownString();
    const row = (name: string, value: string | undefined) => {
      if (value !== undefined && value !== '') {
        tooltip.appendText(`${name}: ${value}`);
        tooltip.appendMarkdown('  \n');
      }
    };
    const { status, problem } = this.server;
    row('linelens', problem ?? (this.isBusy ? 'busy' : undefined));
    row('Model', status?.model);
    row('Runs on', status?.executionProvider);
    row('Method', status?.method);
    const finding = this.cursor.finding();
    if (finding !== undefined) {
      const isIgnored = finding.ignored !== undefined;
      const verdict = isIgnored ? `ignored: ${finding.ignored}` : finding.flagged ? 'flagged' : 'not flagged';
      const p = probability(finding.probability, finding.threshold);
      row(finding.function.name, `p ${p}, ${verdict} (threshold ${finding.threshold})`);
      row('Alignment', alignment(finding.alignment));
      row('Completeness gap', finding.completenessGap?.toPrecision(2));
      row(
        'Not seen by the model',
        finding.unseenLines.length > 0 ? count(finding.unseenLines.length, 'line') : undefined,
      );
    }
    row('Note', status?.message);
    tooltip.appendText(
      this.isShown() ? 'Click to choose the method.' : 'Shading is switched off. Click to choose the method.',
    );
    return tooltip;
  }

  dispose(): void {
    clearTimeout(this.busyTimer);
    this.disposables.forEach((one) => {
      one.dispose();
    });
  }
}
