// The commands: what is asked for before, what is sent, how each result is shown.

import * as vscode from 'vscode';
import type { Server } from './client';
import type { ComparePanel } from './compare/panel';
import { ofMethods, ofModels, ofPair } from './compare/table';
import type { Cursor } from './cursor';
import { activeEditor, openDocument, placeOf, reveal } from './documents';
import type { History } from './history';
import type { Methods } from './methods';
import { topLines } from './overlay';
import type {
  Analysis,
  DocumentFinding,
  MethodComparison,
  ModelComparison,
  PairComparison,
  Place,
  RelevantLine,
  Report,
  Status,
  Written,
} from './protocol';
import { count, probability } from './scale';
import { openSettings, whereSettingsAre } from './settings';
import type { Shading } from './shading';
import { openWalkthrough } from './walkthrough';

const TOLD_MS = 10_000;

export interface Parts {
  server: Server;
  shading: Shading;
  cursor: Cursor;
  methods: Methods;
  history: History;
  panel: ComparePanel;
  /** Something that the status bar shows was switched. */
  switched: () => void;
}

const say = (text: string): void => {
  void vscode.window.showInformationMessage(`linelens: ${text}`);
};

function isPlace(value: unknown): value is Place {
  return typeof value === 'object' && value !== null && 'textDocument' in value && 'position' in value;
}

/** The place that a command is about: what the server said, else the cursor. */
function placeFor(given: unknown): Place | undefined {
  if (isPlace(given)) {
    return given;
  }
  const editor = activeEditor();
  if (editor === undefined) {
    say('open a C or C++ file first.');
    return undefined;
  }
  return placeOf(editor.document, editor.selection.active);
}

function sourceOf(uri: string): string[] {
  return (
    openDocument(uri)
      ?.getText()
      .split(/\r\n|\r|\n/) ?? []
  );
}

export class Commands implements vscode.Disposable {
  private readonly disposables: vscode.Disposable[];
  private leaving: vscode.Disposable | undefined;

  constructor(private readonly parts: Parts) {
    const { server, shading } = parts;
    const written = (name: string) => async (given: unknown) => {
      const place = placeFor(given);
      return place && this.written(name, place);
    };
    const commands: Record<string, (...given: unknown[]) => unknown> = {
      explain: (given) => this.explain(given),
      explainWith: (given) => this.explainWith(given),
      chooseMethod: () => this.chooseMethod(),
      setMethod: (method) => this.setMethod(String(method)),
      nextMethod: () => this.nextMethod(),
      chooseModel: () => this.chooseModel(),
      setModel: (model) => this.setModel(String(model)),
      compareMethods: (given) => this.compareMethods(given),
      showDaTable: (given) => this.compareMethods(given, true),
      compareModels: (given) => this.compareModels(given),
      comparePair: (given) => this.comparePair(given),
      compareHead: (given) => this.comparePair(given, 'HEAD'),
      nextRelevantLine: (given) => this.goTo('linelens.nextRelevantLine', given),
      previousRelevantLine: (given) => this.goTo('linelens.previousRelevantLine', given),
      toggleGroundTruthLine: written('linelens.toggleGroundTruthLine'),
      setLabel: (given) => this.setLabel(given),
      addNote: (given) => this.asking('linelens.addNote', given, 'note', 'Note on this function (empty: take it back)'),
      ignore: (given) =>
        this.asking('linelens.ignore', given, 'reason', 'Why is this function ignored? (empty: no longer ignore it)'),
      analyzeFile: () => this.analyzeFile(),
      analyzeWorkspace: () => this.analyze('linelens.analyzeWorkspace', {}, 'the workspace'),
      exportReport: () => this.exportReport(),
      reload: () => this.reload(),
      restart: () => server.restart(),
      toggleShading: () => {
        shading.toggle();
        parts.switched();
      },
      showLog: () => {
        server.log.show();
      },
      openSettings: (key) => openSettings(typeof key === 'string' ? key : 'linelens'),
      reveal: (uri, line) => reveal(vscode.Uri.parse(String(uri)), Number(line)),
      openWalkthrough: () => openWalkthrough(),
    };
    this.disposables = Object.entries(commands).map(([name, run]) =>
      vscode.commands.registerCommand(`linelens.${name}`, run),
    );
  }

  // Explaining -------------------------------------------------------------------------------------------------------

  private async explain(given?: unknown): Promise<void> {
    const at = isPlace(given) ? new vscode.Position(given.position.line, given.position.character) : undefined;
    if (placeFor(given) === undefined) {
      return;
    }
    const finding = await this.parts.cursor.ask(false, at);
    if (finding === null) {
      say('the cursor is in no function that linelens can read.');
    } else if (finding !== undefined) {
      this.tellFinding(finding);
    }
  }

  private tellFinding(finding: DocumentFinding): void {
    const numbers = topLines(finding, vscode.workspace.getConfiguration('linelens').get('topLines', 5));
    const verdict = finding.flagged ? 'flagged' : 'not flagged';
    const parts = [
      `${finding.function.name}: p ${probability(finding.probability, finding.threshold)}, ${verdict}`,
      finding.method,
      `lines ${numbers.map(({ line }) => line + 1).join(', ')}`,
    ];
    if (finding.completenessGap !== undefined) {
      parts.push(`completeness gap ${finding.completenessGap.toPrecision(2)}`);
    }
    if (finding.unseenLines.length > 0) {
      parts.push(`${count(finding.unseenLines.length, 'line')} not seen by the model`);
    }
    const told = vscode.window.setStatusBarMessage(`linelens: ${parts.join(' · ')}`, TOLD_MS);
    // Of another function it would be wrong.
    this.leaving?.dispose();
    this.leaving = this.parts.cursor.onAnswered((now) => {
      if (now?.function.name !== finding.function.name) {
        told.dispose();
        this.leaving?.dispose();
      }
    });
  }

  private async explainWith(given: unknown): Promise<void> {
    if ((await this.chooseMethod()) !== undefined) {
      await this.explain(given);
    }
  }

  private async chooseMethod(): Promise<string | undefined> {
    const method = await this.parts.methods.choose();
    if (method !== undefined) {
      await this.setMethod(method);
    }
    return method;
  }

  private async setMethod(method: string): Promise<void> {
    await this.parts.server.command<string>('linelens.setMethod', method);
    this.askAgain();
  }

  private async nextMethod(): Promise<void> {
    const method = await this.parts.server.command<string>('linelens.nextMethod');
    if (method !== undefined) {
      vscode.window.setStatusBarMessage(`linelens: explaining by ${method}`, 3000);
      this.askAgain();
    }
  }

  private askAgain(): void {
    this.parts.cursor.forget();
    this.parts.cursor.moved();
  }

  // Models -----------------------------------------------------------------------------------------------------------

  private async pickModel(title: string, withCurrent: boolean): Promise<string | undefined> {
    const { status } = this.parts.server;
    const models = (status?.models ?? []).filter((model) => withCurrent || model !== status?.model);
    if (models.length === (withCurrent ? 1 : 0) && this.parts.server.isRunning) {
      const choice = await vscode.window.showInformationMessage(
        `linelens: there is no other model. Name more model directories in ${whereSettingsAre()}.`,
        'Open Settings',
      );
      if (choice !== undefined) {
        await openSettings('linelens.models');
      }
      return undefined;
    }
    const choices = models.map((model) => ({ label: model, description: model === status?.model ? 'in use' : '' }));
    return (await vscode.window.showQuickPick(choices, { title: `linelens: ${title}` }))?.label;
  }

  private async chooseModel(): Promise<void> {
    const model = await this.pickModel('model', true);
    if (model !== undefined) {
      await this.setModel(model);
    }
  }

  private async setModel(model: string): Promise<void> {
    if ((await this.working(`loading ${model}`, 'linelens.setModel', model)) !== undefined) {
      this.parts.history.clear();
      this.askAgain();
    }
  }

  private async reload(): Promise<void> {
    const status = await this.working<Status>('loading', 'linelens.reload');
    if (status !== undefined) {
      this.parts.history.clear();
      this.askAgain();
      say(status.model === undefined ? 'read again, but there is no model.' : `${status.model} is loaded again.`);
    }
  }

  // Comparing --------------------------------------------------------------------------------------------------------

  private async compareMethods(given?: unknown, factsFirst = false): Promise<void> {
    const place = placeFor(given);
    const comparison =
      place && (await this.working<MethodComparison>('comparing methods', 'linelens.compareMethods', place));
    if (place === undefined || comparison === undefined) {
      return;
    }
    // All of them are computed by now.
    const findings: DocumentFinding[] = [];
    for (const { method } of comparison.methods) {
      const finding = await this.parts.server.explain({ ...place, method }, true);
      if (finding !== undefined && finding !== null) {
        findings.push(finding);
        this.parts.history.note(finding.textDocument.uri, finding);
      }
    }
    const { uri } = comparison.textDocument;
    const current = this.parts.server.status?.method ?? '';
    const table = ofMethods(comparison, findings, sourceOf(uri), current);
    this.parts.panel.show(table, () => this.compareMethods(place, factsFirst), factsFirst);
  }

  private async compareModels(given?: unknown): Promise<void> {
    const place = placeFor(given);
    if (place === undefined) {
      return;
    }
    const named = (given as { model?: string } | undefined)?.model;
    const model = named ?? (await this.pickModel('compare with which model?', false));
    if (model === undefined) {
      return;
    }
    const params = { ...place, model };
    const comparison = await this.working<ModelComparison>('comparing models', 'linelens.compareModels', params);
    if (comparison !== undefined) {
      this.parts.panel.show(ofModels(comparison, sourceOf(comparison.textDocument.uri)));
    }
  }

  private async comparePair(given: unknown, revision?: string): Promise<void> {
    const place = placeFor(given);
    if (place === undefined) {
      return;
    }
    const params = revision === undefined ? place : { ...place, revision };
    const comparison = await this.working<PairComparison>('comparing versions', 'linelens.comparePair', params);
    if (comparison !== undefined) {
      const { after, revision: found } = comparison;
      if (found?.byDefault === true) {
        say(`${after.function.name} is in no pair; comparing with ${found.name}.`);
      }
      this.parts.panel.show(ofPair(comparison, place.textDocument.uri));
    }
  }

  // Going to lines ---------------------------------------------------------------------------------------------------

  private async goTo(command: string, given: unknown): Promise<void> {
    const place = placeFor(given);
    const found =
      place &&
      (await this.parts.server.request<RelevantLine>('workspace/executeCommand', { command, arguments: [place] }));
    if (found === null) {
      say('there is no relevant line.');
    } else if (found !== undefined) {
      await reveal(vscode.Uri.parse(found.textDocument.uri), found.range.start.line);
    }
  }

  // Ground truth -----------------------------------------------------------------------------------------------------

  private async written(command: string, argument: unknown): Promise<void> {
    const done = await this.parts.server.command<Written>(command, argument);
    if (done !== undefined) {
      vscode.window.setStatusBarMessage(`linelens: ${done.message}`, 5000);
      this.askAgain();
    }
  }

  private async setLabel(given: unknown): Promise<void> {
    const place = placeFor(given);
    if (place === undefined) {
      return;
    }
    const named = (given as { label?: string } | undefined)?.label;
    const choices = ['vulnerable', 'benign', 'unsure'];
    const of = this.parts.cursor.finding()?.function.name;
    const label =
      named ??
      (await vscode.window.showQuickPick(choices, {
        title: `linelens: label of ${of === undefined || isPlace(given) ? 'the function' : of}`,
        placeHolder: 'The same label again takes it back.',
      }));
    if (label !== undefined) {
      await this.written('linelens.setLabel', { ...place, label });
    }
  }

  /** Commands with a text that the user may have to be asked for. */
  private async asking(command: string, given: unknown, field: 'note' | 'reason', prompt: string): Promise<void> {
    const place = placeFor(given);
    if (place === undefined) {
      return;
    }
    const named = (given as Record<string, unknown> | undefined)?.[field];
    const of = this.parts.cursor.finding()?.function.name;
    const title = of === undefined || isPlace(given) ? 'linelens' : `linelens: ${of}`;
    const text = typeof named === 'string' ? named : await vscode.window.showInputBox({ title, prompt });
    if (text !== undefined) {
      await this.written(command, { ...place, [field]: text });
    }
  }

  // Files and folders ------------------------------------------------------------------------------------------------

  private async analyzeFile(): Promise<void> {
    const place = placeFor(undefined);
    if (place !== undefined) {
      await this.analyze('linelens.analyzeFile', { textDocument: place.textDocument }, 'the file');
    }
  }

  private async analyze(command: string, argument: object, what: string): Promise<void> {
    const result = await this.working<Analysis>(`analysing ${what}`, command, argument);
    if (result === undefined) {
      return;
    }
    const failed = result.failed.length + result.unreadable.length;
    for (const { uri, function: name, reason } of result.failed) {
      this.parts.server.log.warn(`${uri}: ${name} was not analysed: ${reason}`);
    }
    result.unreadable.forEach((sentence) => {
      this.parts.server.log.warn(sentence);
    });
    const text = `${count(result.functions, 'function')} in ${count(result.files, 'file')}: ${result.flagged.length} flagged, ${result.ignored} ignored, ${failed} not analysed.`;
    const actions = [...(result.flagged.length > 0 ? ['Show Problems'] : []), ...(failed > 0 ? ['Show Log'] : [])];
    const choice = await vscode.window.showInformationMessage(`linelens: ${text}`, ...actions);
    if (choice === 'Show Problems') {
      await vscode.commands.executeCommand('workbench.actions.view.problems');
    } else if (choice === 'Show Log') {
      this.parts.server.log.show();
    }
  }

  private async exportReport(): Promise<void> {
    const editor = activeEditor();
    const folders = vscode.workspace.workspaceFolders ?? [];
    const subjects = [
      ...(editor === undefined
        ? []
        : [{ label: 'This file', argument: { textDocument: { uri: editor.document.uri.toString() } } }]),
      ...folders.map((folder) => ({ label: `Folder ${folder.name}`, argument: { folder: folder.uri.toString() } })),
    ];
    const subject = await vscode.window.showQuickPick(subjects, { title: 'linelens: report about what?' });
    const formats = [
      { label: 'HTML', description: 'one page with the shaded source', format: 'html' },
      { label: 'SARIF', description: 'SARIF 2.1.0, for other tools', format: 'sarif' },
    ];
    const format = subject && (await vscode.window.showQuickPick(formats, { title: 'linelens: format of the report' }));
    if (format === undefined) {
      return;
    }
    const argument = { ...subject?.argument, format: format.format };
    const report = await this.working<Report>('writing the report', 'linelens.exportReport', argument);
    if (report === undefined) {
      return;
    }
    const uri = vscode.Uri.parse(report.file);
    const where = vscode.workspace.asRelativePath(uri);
    const text = `linelens: ${where}: ${count(report.flagged, 'flagged function')}, ${report.ignored} of them ignored.`;
    if ((await vscode.window.showInformationMessage(text, 'Open')) === 'Open') {
      await vscode.commands.executeCommand('vscode.open', uri);
    }
  }

  /** A command of the server that may take long: shown, and to be cancelled. */
  private working<T>(title: string, command: string, argument?: unknown): Promise<T | undefined> {
    const options = { location: vscode.ProgressLocation.Window, title: `linelens: ${title}`, cancellable: true };
    return Promise.resolve(
      vscode.window.withProgress(options, (_, token) => this.parts.server.command<T>(command, argument, token)),
    );
  }

  dispose(): void {
    this.leaving?.dispose();
    this.disposables.forEach((one) => {
      one.dispose();
    });
  }
}
