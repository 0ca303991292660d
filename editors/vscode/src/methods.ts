// Choosing a method: which there are, when each was last computed, the layer of attention, the steps of integrated
// gradients.

import * as vscode from 'vscode';
import type { Server } from './client';
import type { Cursor } from './cursor';
import type { History } from './history';
import { probability } from './scale';

const ABOUT: Record<string, string> = {
  'attention:first': 'attention of the first encoder layer',
  'attention:last': 'attention of the last encoder layer',
  ig: 'integrated gradients',
  attnlrp: 'layer-wise relevance propagation for transformers',
  'gradient-x-input': 'gradient × input',
  occlusion: 'what the verdict loses without each line',
  native: "the model's own relevance",
};

const STEPS = ['auto', '20', '50', '100', '200'];

export function about(method: string): string {
  return ABOUT[method] ?? (method.startsWith('attention:') ? `attention of encoder layer ${method.slice(10)}` : '');
}

type Choice = vscode.QuickPickItem & { run?: () => Promise<string | undefined> };

export class Methods {
  constructor(
    private readonly server: Server,
    private readonly cursor: Cursor,
    private readonly history: History,
  ) {}

  /** Asks for a method; `undefined` where the user chose none, or something else was done. */
  async choose(): Promise<string | undefined> {
    const { status } = this.server;
    if (!this.server.isRunning || status?.methods === undefined) {
      await this.server.request('linelens/functions', { textDocument: { uri: '' } });
      return undefined;
    }
    const inTheMiddle = (method: string) => /^attention:\d+$/.test(method);
    const named = status.methods.filter((method) => !inTheMiddle(method));
    const current = status.method ?? '';
    if (inTheMiddle(current)) {
      named.unshift(current);
    }
    const choices: Choice[] = named.map((method) => ({
      ...this.item(method, current),
      run: () => Promise.resolve(method),
    }));
    choices.push({ label: 'More', kind: vscode.QuickPickItemKind.Separator });
    const layers = status.layers ?? 0;
    if (layers > 1) {
      choices.push({
        label: '$(layers) Attention of one layer…',
        description: `${layers} layers`,
        run: () => this.layer(layers, current),
      });
    }
    if (status.methods.includes('ig')) {
      choices.push({
        label: '$(settings) Integrated gradients: number of steps…',
        description: this.steps(),
        run: () => this.chooseSteps(),
      });
    }
    choices.push({
      label: '$(split-horizontal) Compare all methods',
      run: async () => {
        await vscode.commands.executeCommand('linelens.compareMethods');
        return undefined;
      },
    });
    const choice = await vscode.window.showQuickPick(choices, {
      title: `linelens: method (${status.model ?? ''} on ${status.executionProvider ?? ''})`,
      placeHolder: 'How shall the verdict be explained?',
      matchOnDescription: true,
    });
    return choice?.run?.();
  }

  private item(method: string, current: string): vscode.QuickPickItem {
    const finding = this.cursor.finding();
    const known = finding && this.history.of(finding.textDocument.uri, finding.function.name, method);
    const when =
      known === undefined
        ? undefined
        : `${finding?.function.name ?? ''}: computed ${known.time.toLocaleTimeString()}, p ${probability(known.probability, known.threshold)}`;
    const parts = [about(method), ...(method === current ? ['in use'] : [])];
    return {
      label: `${method === current ? '$(check)' : '$(blank)'} ${method}`,
      description: parts.join(' · '),
      ...(when === undefined ? {} : { detail: `$(blank) ${when}` }),
    };
  }

  private async layer(layers: number, current: string): Promise<string | undefined> {
    const choices = Array.from({ length: layers }, (_, index) => {
      const method =
        index === 0 ? 'attention:first' : index === layers - 1 ? 'attention:last' : `attention:${index + 1}`;
      return { ...this.item(method, current), method };
    });
    const choice = await vscode.window.showQuickPick(choices, { title: 'linelens: attention of which layer?' });
    return choice?.method;
  }

  private steps(): string {
    return String(vscode.workspace.getConfiguration('linelens').get('steps') ?? 'as the profile says');
  }

  private async chooseSteps(): Promise<string | undefined> {
    const own = 'Another number…';
    const choice = await vscode.window.showQuickPick(
      [...STEPS, own].map((label) => ({ label, ...(label === 'auto' ? { description: 'adaptive' } : {}) })),
      { title: 'linelens: steps of integrated gradients', placeHolder: `Now: ${this.steps()}` },
    );
    let steps = choice?.label;
    if (steps === own) {
      steps = await vscode.window.showInputBox({
        title: 'linelens: steps of integrated gradients',
        prompt: 'A whole number from 1 to 1000',
        validateInput: (text) => (/^([1-9]\d{0,2}|1000)$/.test(text) ? undefined : 'a whole number from 1 to 1000'),
      });
    }
    if (steps === undefined) {
      return undefined;
    }
    const target =
      vscode.workspace.workspaceFolders === undefined
        ? vscode.ConfigurationTarget.Global
        : vscode.ConfigurationTarget.Workspace;
    const value = steps === 'auto' ? steps : Number(steps);
    await vscode.workspace.getConfiguration('linelens').update('steps', value, target);
    return 'ig';
  }
}
