// The server: finding it, starting it, talking to it, and saying what happened when it goes.

import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import * as path from 'node:path';
import * as vscode from 'vscode';
import {
  CloseAction,
  type CloseHandlerResult,
  CodeLensRequest,
  type DynamicFeature,
  ErrorAction,
  ExecuteCommandRequest,
  InlayHintRequest,
  LanguageClient,
  type LanguageClientOptions,
  type StaticFeature,
} from 'vscode-languageclient/node';
import { SELECTOR } from './documents';
import { findServer } from './finder';
import { chosen, environment } from './keys';
import type { DocumentFinding, Functions, Place, Relevance, Status } from './protocol';
import { timed } from './timing';

// More unexpected ends than this within so many milliseconds, and it is not started again.
const MOST_RESTARTS = 3;
const RESTART_WINDOW_MS = 180_000;
const EXIT_WAIT_MS = 1000;

/** Answers that nobody has to hear of: cancelled, and the text changed meanwhile. */
const SILENT = [-32800, -32801];

/** Commands whose refusal the server tells the user itself. */
const TOLD_BY_SERVER = ['linelens.toggleGroundTruthLine', 'linelens.setLabel', 'linelens.addNote', 'linelens.ignore'];

/** The extension's own commands have the server's names, so that they exist without a server, too. */
class Client extends LanguageClient {
  /** The library gave up a restart. */
  onGivenUp: ((why: string) => void) | undefined;

  /** What goes wrong with the server is said by us, once, with what to do. */
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
    if (message.startsWith('Restarting server failed')) {
      this.onGivenUp?.(reason(data));
    }
  }

  override registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
    const isCommands =
      'registrationType' in feature && feature.registrationType.method === ExecuteCommandRequest.method;
    if (!isCommands) {
      super.registerFeature(feature);
    }
  }
}

export type State = 'stopped' | 'starting' | 'running';

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export class Server implements vscode.Disposable {
  private client: Client | undefined;
  private process: ChildProcess | undefined;
  private exit: Promise<Ended> | undefined;
  private ends: number[] = [];
  private wasReady = false;
  /** What the log was told last. */
  private said: string | undefined;
  private trouble: string | undefined;
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly related = new vscode.EventEmitter<Relevance>();

  state: State = 'stopped';
  /** The server's last status. */
  status: Status | undefined;
  /** Why there is no server. */
  problem: string | undefined;
  /** Whether the server's inlay hints are shown. */
  showsHints: () => boolean = () => true;
  /** Whether a line is in a function that was edited since the server spoke of it. */
  isStale: (document: vscode.TextDocument, line: number) => boolean = () => false;

  /** The state or the status changed. */
  readonly onChanged = this.changed.event;
  /** The server says what is worth shading. */
  readonly onRelevance = this.related.event;

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
  ) {}

  private settings(uri?: vscode.Uri): vscode.WorkspaceConfiguration {
    return vscode.workspace.getConfiguration('linelens', uri);
  }

  // Starting and ending ----------------------------------------------------------------------------------------------

  async start(): Promise<void> {
    if (this.state !== 'stopped') {
      return;
    }
    const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
    const found = findServer({
      setting: this.settings().get<string>('server.path', ''),
      extensionFolder: this.context.extensionPath,
      searchPath: process.env['PATH'] ?? '',
      workspaceFolders: folders,
      isWindows: process.platform === 'win32',
      isProgram,
    });
    if ('problem' in found) {
      this.fail(found.problem, ['Open Settings', 'Open Walkthrough']);
      return;
    }
    this.log.info(`the server is ${found.program}, from ${found.how}`);
    this.problem = undefined;
    this.setState('starting');
    const client = this.createClient(found.program);
    this.client = client;
    try {
      await client.start();
    } catch (error) {
      // It may have come to an end, which says more.
      const ended = await within(this.exit, EXIT_WAIT_MS);
      if (this.client !== client || (this.problem as string | undefined) !== undefined) {
        return;
      }
      if (ended !== undefined) {
        this.fail(`the server ${howItEnded(ended)} before it was ready.`, ['Show Log', 'Restart']);
      } else {
        this.fail(`the server could not be started: ${reason(error)}.`, ['Show Log', 'Restart']);
      }
    }
  }

  private createClient(program: string): Client {
    const options: LanguageClientOptions = {
      documentSelector: SELECTOR,
      outputChannel: this.log,
      initializationFailedHandler: () => false,
      diagnosticCollectionName: 'linelens',
      errorHandler: {
        error: (error) => {
          this.log.error(`the connection to the server: ${error.message}`);
          return { action: ErrorAction.Continue, handled: true };
        },
        closed: () => this.closed(client),
      },
      middleware: {
        workspace: {
          configuration: (params, token, next) => {
            if (params.items.some((item) => item.section !== 'linelens')) {
              return next(params, token);
            }
            return params.items.map(({ scopeUri }) =>
              chosen(this.settings(scopeUri === undefined ? undefined : vscode.Uri.parse(scopeUri))),
            );
          },
          didChangeConfiguration: async (_sections, next) => {
            // Only a hint to ask again; the extension's own settings are nothing for the server.
            await next([]);
          },
        },
        // The server takes from these requests what is visible, so they are sent in any case.
        provideInlayHints: async (document, range, token, next) => {
          const hints = await next(document, range, token);
          // Until it has looked again, the server says of an edited function what it knew.
          return this.showsHints() ? hints?.filter(({ position: { line } }) => !this.isStale(document, line)) : [];
        },
        provideCodeLenses: async (document, token, next) => {
          const lenses = await next(document, token);
          return lenses?.filter(({ range }) => !this.isStale(document, range.start.line));
        },
      },
    };
    const client = new Client('linelens', 'linelens', () => this.spawn(program), options);
    client.onGivenUp = (why) => {
      if (this.client === client && this.problem === undefined) {
        this.fail(`the server could not be started again: ${why}.`, ['Show Log', 'Restart']);
      }
    };
    client.registerFeature({
      fillClientCapabilities: (capabilities) => {
        capabilities.experimental = { ...(capabilities.experimental as object), linelens: { relevance: true } };
      },
      initialize: () => undefined,
      getState: () => ({ kind: 'static' }),
      clear: () => undefined,
    });
    client.onNotification(
      'linelens/status',
      timed('linelens/status', (status: Status) => {
        if (!this.wasReady) {
          const { name, version } = client.initializeResult?.serverInfo ?? {};
          this.log.info(`${name ?? 'the server'} ${version ?? 'of an unknown version'} is running`);
        }
        this.logStatus(status);
        this.status = status;
        this.wasReady = true;
        this.setState('running');
      }),
    );
    client.onNotification('linelens/relevance', (params: Relevance) => {
      this.related.fire(params);
    });
    return client;
  }

  /** What changed in what the server says of itself. */
  private logStatus(status: Status): void {
    const { model, executionProvider = '?', method = '?', health, message } = status;
    const said = model === undefined ? 'no model' : `model ${model} on ${executionProvider}, method ${method}`;
    if (said !== this.said && status.quiescent) {
      this.said = said;
      this.log.info(said);
    }
    const trouble = health === 'ok' ? undefined : (message ?? health);
    if (trouble !== this.trouble) {
      this.trouble = trouble;
      if (trouble === undefined) {
        this.log.info('all is well again');
      } else if (health === 'error') {
        this.log.error(trouble);
      } else {
        this.log.warn(trouble);
      }
    }
  }

  private spawn(program: string): Promise<ChildProcess> {
    const variables = environment(this.settings(), path.delimiter);
    const child = spawn(program, ['lsp'], { env: { ...process.env, ...variables }, stdio: 'pipe', cwd: '/' });
    this.process = child;
    this.wasReady = false;
    this.said = undefined;
    this.trouble = undefined;
    this.exit = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        resolve({ code, signal });
      });
    });
    return new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('spawn', () => {
        resolve(child);
      });
    });
  }

  /** The connection is gone without anybody having asked for that. */
  private async closed(client: Client): Promise<CloseHandlerResult> {
    const how = howItEnded(await within(this.exit, EXIT_WAIT_MS));
    if (this.client !== client) {
      // It was stopped.
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.status = undefined;
    if (this.problem !== undefined) {
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    if (!this.wasReady) {
      this.fail(`the server ${how} before it was ready.`, ['Show Log', 'Restart']);
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    const now = Date.now();
    this.ends = [...this.ends.filter((time) => now - time < RESTART_WINDOW_MS), now];
    if (this.ends.length > MOST_RESTARTS) {
      const times = `${this.ends.length} times in ${RESTART_WINDOW_MS / 60_000} minutes`;
      this.fail(`the server ${how}, ${times}, so it is not started again.`, ['Show Log', 'Restart']);
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.setState('starting');
    this.log.warn(`the server ${how}; it is being started again`);
    void this.tell(vscode.window.showWarningMessage, `the server ${how}; it is being started again.`, ['Show Log']);
    return { action: CloseAction.Restart, handled: true };
  }

  /** Starts the server anew, and says why. */
  async restart(why?: string): Promise<void> {
    if (why !== undefined) {
      this.log.info(`the server is being started again: ${why}`);
      vscode.window.setStatusBarMessage(`linelens: starting the server again: ${why}`, 5000);
    }
    await this.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    const client = this.client;
    const child = this.process;
    if (this.state !== 'stopped') {
      this.log.info('the server is being stopped');
    }
    this.client = undefined;
    this.ends = [];
    try {
      if (client?.needsStop() === true) {
        await client.stop(2000);
      }
      await client?.dispose(2000);
    } catch (error) {
      this.log.warn(`the server did not stop as asked: ${reason(error)}`);
    } finally {
      child?.kill();
      this.status = undefined;
      this.setState('stopped');
    }
  }

  dispose(): void {
    void this.stop();
    this.changed.dispose();
    this.related.dispose();
  }

  // Telling ----------------------------------------------------------------------------------------------------------

  private setState(state: State): void {
    this.state = state;
    this.changed.fire();
  }

  private fail(problem: string, actions: string[]): void {
    this.problem = problem;
    this.log.error(problem);
    this.setState('stopped');
    void this.tell(vscode.window.showErrorMessage, problem, actions);
  }

  private async tell(
    show: (message: string, ...actions: string[]) => Thenable<string | undefined>,
    message: string,
    actions: string[],
  ): Promise<void> {
    const commands: Record<string, [string, ...unknown[]]> = {
      'Show Log': ['linelens.showLog'],
      Restart: ['linelens.restart'],
      'Open Settings': ['linelens.openSettings', 'linelens.server.path'],
      'Open Walkthrough': ['linelens.openWalkthrough'],
    };
    const choice = await show(`linelens: ${message}`, ...actions);
    const command = choice === undefined ? undefined : commands[choice];
    if (command !== undefined) {
      await vscode.commands.executeCommand(...command);
    }
  }

  // Asking -----------------------------------------------------------------------------------------------------------

  get isRunning(): boolean {
    return this.state === 'running' && this.client?.isRunning() === true;
  }

  /** Sends a request. `undefined` where nothing came of it: the user was told why, unless `quietly`. */
  async request<T>(
    method: string,
    params: unknown,
    quietly = false,
    token?: vscode.CancellationToken,
  ): Promise<T | null | undefined> {
    const client = this.client;
    if (client === undefined || !this.isRunning) {
      if (!quietly) {
        const why = this.problem ?? 'the server is not running.';
        void this.tell(vscode.window.showWarningMessage, why, ['Restart', 'Show Log']);
      }
      return undefined;
    }
    try {
      // An absent token would be sent as a second parameter.
      return await (token === undefined
        ? client.sendRequest<T | null>(method, params)
        : client.sendRequest<T | null>(method, params, token));
    } catch (error) {
      const code = (error as { code?: number }).code;
      this.log.debug(`${method}: ${reason(error)}`);
      if (!quietly && !(code !== undefined && SILENT.includes(code))) {
        void vscode.window.showErrorMessage(`linelens: ${reason(error)}`);
      }
      return undefined;
    }
  }

  /** Runs a command of the server; `null` where no function holds the place, which the user was told. */
  async command<T>(command: string, argument?: unknown, token?: vscode.CancellationToken): Promise<T | undefined> {
    const quietly = TOLD_BY_SERVER.includes(command) && this.isRunning;
    const params = { command, arguments: argument === undefined ? [] : [argument] };
    const result = await this.request<T>('workspace/executeCommand', params, quietly, token);
    if (result === null) {
      void vscode.window.showInformationMessage('linelens: the cursor is in no function that linelens can read.');
      return undefined;
    }
    return result;
  }

  explain(place: Place & { method?: string }, quietly: boolean, token?: vscode.CancellationToken) {
    return this.request<DocumentFinding>('linelens/explain', place, quietly, token);
  }

  functions(uri: string) {
    return this.request<Functions>('linelens/functions', { textDocument: { uri } }, true);
  }

  /** The server shall read the settings again. */
  settingsChanged(): void {
    if (this.isRunning) {
      void this.client?.sendNotification('workspace/didChangeConfiguration', { settings: null });
    }
  }

  /** Inlay hints appear or disappear. */
  refreshHints(document: vscode.TextDocument): void {
    const feature = this.client?.getFeature(InlayHintRequest.method);
    feature?.getProvider(document)?.onDidChangeInlayHints.fire();
  }

  /** Hints and lenses are asked for now: VS Code itself waits until the user has stopped typing for a while. */
  refreshAfterEdit(document: vscode.TextDocument): void {
    this.refreshHints(document);
    const feature = this.client?.getFeature(CodeLensRequest.method);
    feature?.getProvider(document)?.onDidChangeCodeLensEmitter.fire();
  }
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function howItEnded(ended: Ended | undefined): string {
  if (ended === undefined) {
    return 'closed its connection';
  }
  return ended.signal !== null ? `was killed by ${ended.signal}` : `ended with exit code ${ended.code ?? '?'}`;
}

async function within<T>(promise: Promise<T> | undefined, ms: number): Promise<T | undefined> {
  const late = new Promise<undefined>((resolve) => {
    setTimeout(() => {
      resolve(undefined);
    }, ms);
  });
  return Promise.race([promise, late]);
}

function reason(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^linelens: /, '');
}
