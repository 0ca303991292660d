// Which settings are the server's, and how each reaches it. docs/configuration.md describes them; a test ties the two.

/** Settings that a workspace may choose: the server asks for them. */
export const WORKSPACE_KEYS = [
  'method',
  'profile',
  'threshold',
  'long',
  'steps',
  'absolute',
  'granularity',
  'analyze',
  'debounceMs',
  'severity',
  'lineHints',
  'topLines',
  'inlayHints',
  'annotations',
  'annotator',
  'annotationPolicy',
] as const;

/** What is loaded and run: only from the user's own settings, so the server takes it from its environment alone. */
export const MACHINE_KEYS = [
  'library',
  'model',
  'models',
  'executionProvider',
  'threads',
  'deviceId',
  'memoryLimitMib',
  'attnlrp',
] as const;

/** Settings whose change starts the server anew. */
export const RESTART_KEYS = ['server.path', ...MACHINE_KEYS] as const;

/** `executionProvider` → `LINELENS_EXECUTION_PROVIDER`. */
export function environmentVariable(key: string): string {
  return `LINELENS_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** What VS Code knows of a setting. */
export interface Inspected {
  defaultValue?: unknown;
  globalValue?: unknown;
  workspaceValue?: unknown;
  workspaceFolderValue?: unknown;
}

export interface Settings {
  get(key: string): unknown;
  inspect(key: string): Inspected | undefined;
}

/**
 * The workspace settings that somebody set. Defaults are left out: they would stand above the user's configuration file
 * and the workspace's linelens.toml.
 */
export function chosen(settings: Settings): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const key of WORKSPACE_KEYS) {
    const known = settings.inspect(key);
    const isSet = [known?.globalValue, known?.workspaceValue, known?.workspaceFolderValue].some(
      (value) => value !== undefined && value !== null,
    );
    const value = settings.get(key);
    if (isSet && value !== null && value !== undefined) {
      values[key] = value;
    }
  }
  return values;
}

/** The machine settings that differ from their defaults, as environment variables. */
export function environment(settings: Settings, listSeparator: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const key of MACHINE_KEYS) {
    const value = settings.get(key);
    const isDefault = JSON.stringify(value) === JSON.stringify(settings.inspect(key)?.defaultValue);
    if (isDefault || value === null || value === undefined || value === '') {
      continue;
    }
    variables[environmentVariable(key)] = Array.isArray(value) ? value.join(listSeparator) : String(value as number);
  }
  return variables;
}
