--- `:checkhealth linelens`

local client_of = require('linelens.client')
local config = require('linelens.config')
local util = require('linelens.util')

local M = {}

local health = vim.health
local DOCTOR_MS = 20000

local function editor()
  health.start('Neovim')
  if vim.fn.has('nvim-0.10') == 1 then
    health.ok(('version %s'):format(tostring(vim.version())))
  else
    health.error('linelens needs Neovim 0.10 or newer', 'Install a newer Neovim.')
  end
  if vim.o.termguicolors or vim.fn.has('gui_running') == 1 then
    health.ok("'termguicolors' is on: eight shades")
  else
    health.warn(
      "'termguicolors' is off: a terminal of 256 colours cannot show eight shades",
      'Use a terminal with 24-bit colour and :set termguicolors. Scores at the ends of lines need no colour.'
    )
  end
  health.ok(('the longest time a callback kept the editor: %.1f ms (%s)'):format(util.longest.ms, util.longest.what))
end

local function options()
  health.start('Options')
  if #config.problems == 0 then
    health.ok('all are valid')
  end
  for _, problem in ipairs(config.problems) do
    health.error(problem, 'See :help linelens-options')
  end
end

--- What a program prints; `nil` and why where it cannot be run.
local function output(command)
  local ok, process = pcall(vim.system, command, { text = true })
  if not ok then
    return nil, tostring(process)
  end
  local result = process:wait(DOCTOR_MS)
  if result.code == 124 or result.signal ~= 0 then
    return nil, ('%s did not end within %d s'):format(table.concat(command, ' '), DOCTOR_MS / 1000)
  end
  return result.stdout .. result.stderr, nil, result.code
end

--- `linelens doctor` with the flags that the server gets.
local function doctor(path)
  local command, is_ours = { path }, false
  for _, word in ipairs(vim.list_slice(config.options.cmd, 2)) do
    if word == 'lsp' and not is_ours then
      is_ours = true
      table.insert(command, 'doctor')
    elseif word ~= '--stdio' then
      table.insert(command, word)
    end
  end
  if not is_ours then
    health.info('the option `cmd` does not call `linelens lsp` itself, so `linelens doctor` was not asked')
    return
  end
  local text, problem, code = output(command)
  if not text then
    health.error(problem, 'Run it in a terminal to see where it stops.')
    return
  end
  local say = code == 0 and health.ok or health.error
  local advice = code ~= 0 and { 'Do what the lines above say, then :LineLens reload.' } or nil
  say('linelens doctor says:\n' .. vim.trim(text), advice)
end

local function server()
  health.start('Server')
  local path, problem = client_of.executable()
  if not path then
    health.error(problem)
    return
  end
  local version, reason, code = output({ path, '--version' })
  if not version or code ~= 0 then
    health.error(('%s does not run: %s'):format(path, reason or version), 'Name another one by the option `cmd`.')
    return
  end
  health.ok(('%s: %s'):format(path, vim.trim(version)))
  doctor(path)
end

local function connection(client)
  local status = client_of.status(client)
  local roots = vim.tbl_map(function(folder)
    return folder.name
  end, client.workspace_folders or {})
  local root = #roots > 0 and table.concat(roots, ', ') or 'no workspace folder (ground truth cannot be written)'
  if not status then
    health.warn(('client %d, %s: the server has not said anything yet'):format(client.id, root))
  else
    local say = status.health == 'ok' and health.ok or status.health == 'warning' and health.warn or health.error
    local what = status.model
        and ('model %s on %s, method %s'):format(status.model, status.executionProvider, status.method)
      or 'no model'
    say(('client %d, %s: %s%s'):format(client.id, root, what, status.message and '\n' .. status.message or ''))
    if status.methods then
      health.info('methods: ' .. table.concat(status.methods, ', '))
    end
  end
  health.info('position encoding: ' .. client_of.encoding(client))
  local missing = {}
  for _, name in ipairs(client_of.COMMANDS) do
    if not client_of.has_command(client, name) then
      table.insert(missing, name)
    end
  end
  if #missing > 0 then
    health.info('not offered by this server: ' .. table.concat(missing, ', '))
  end
end

local function connections()
  health.start('Connections')
  local clients = vim.lsp.get_clients({ name = client_of.NAME })
  if #clients == 0 then
    health.info('no server is running: open a C or C++ file, or :LineLens start in one')
  end
  for _, client in ipairs(clients) do
    connection(client)
  end
end

function M.check()
  editor()
  options()
  server()
  connections()
end

return M
