--- The server: finding it, starting it, talking to it, and saying what happened when it goes.

local config = require('linelens.config')
local heat = require('linelens.heat')
local util = require('linelens.util')

local M = {}

M.NAME = 'linelens'

--- Commands of the server that the plugin uses.
M.COMMANDS = {
  'linelens.addNote', 'linelens.analyzeFile', 'linelens.analyzeWorkspace', 'linelens.compareMethods',
  'linelens.compareModels', 'linelens.comparePair', 'linelens.exportReport', 'linelens.ignore', 'linelens.nextMethod',
  'linelens.reload', 'linelens.setLabel', 'linelens.setMethod', 'linelens.setModel', 'linelens.toggleGroundTruthLine',
}

-- More unexpected ends than this within so many seconds, and it is not started again.
local MOST_RESTARTS, RESTART_WINDOW_S = 3, 180
local RESTART_DELAY_MS = 300
-- Answers of the server that nobody has to hear of: cancelled, and the text changed meanwhile.
local SILENT = { [-32800] = true, [-32801] = true }
local METHOD_NOT_FOUND = -32601

--- Of each client: its last `linelens/status`.
local statuses = {}
--- Of each buffer that has a server, or had one until now: the client's number.
local attached = {}
--- Ends that somebody asked for, and the times of those that nobody did.
local asked_to_stop, ends = {}, {}
--- What the process really ended with; Neovim's own message for it is kept back.
local last_exit

-- Which server, which buffers -----------------------------------------------------------------------------------------

--- The path of the server's program, or `nil` and what to do.
function M.executable()
  local program = config.options.cmd[1]
  local path = vim.fn.exepath(program)
  if path ~= '' then
    return path
  end
  local hint = 'Install linelens so that it is in your PATH, or name it: '
    .. "require('linelens').setup({ cmd = { '/path/to/linelens', 'lsp' } }). See :help linelens-install"
  return nil, ('the server `%s` was not found. %s'):format(program, hint)
end

--- Whether a buffer is a file that the server can be asked about.
local function is_file(buf)
  local name = vim.api.nvim_buf_get_name(buf)
  return vim.bo[buf].buftype == '' and name ~= '' and not name:find('^%a[%w+.-]+://')
end

function M.wants(buf)
  return vim.api.nvim_buf_is_loaded(buf)
    and is_file(buf)
    and vim.tbl_contains(config.options.filetypes, vim.bo[buf].filetype)
end

--- The client of a buffer.
function M.of(buf)
  return vim.lsp.get_clients({ bufnr = buf, name = M.NAME })[1]
end

function M.status(client)
  return client and statuses[client.id] or nil
end

--- The position encoding that was agreed with the server; other servers of the buffer may have another.
function M.encoding(client)
  return client.offset_encoding or 'utf-16'
end

-- Messages from the server --------------------------------------------------------------------------------------------

--- Whether the server is missing, or ended by itself and is not started again.
local failed = false

function M.has_failed()
  return failed
end

local function on_status(_, params, context)
  local before = statuses[context.client_id]
  statuses[context.client_id] = params
  failed = false
  if params.health == 'ok' and before and before.health ~= 'ok' then
    util.forget()
  end
  if before and before.method ~= params.method then
    for buf in pairs(attached) do
      heat.forget_own(buf)
    end
  end
  vim.cmd.redrawstatus({ bang = true })
end

local function on_relevance(_, params, context)
  local buf = vim.uri_to_bufnr(params.textDocument.uri)
  local client = M.of(buf)
  if client and client.id == context.client_id then
    heat.relevance(buf, params)
  end
end

local LEVELS = { vim.log.levels.ERROR, vim.log.levels.WARN, vim.log.levels.INFO, vim.log.levels.DEBUG }

-- The option `settings` goes to the server by both of these ways; what is wrong with it is said once.
local WAYS = { 'initializationOptions', "the editor's settings" }

local function on_message(_, params)
  local text = util.reason(params)
  for _, way in ipairs(WAYS) do
    if vim.startswith(text, way .. ': ') then
      text = 'settings' .. text:sub(#way + 1)
    end
  end
  util.once(text, LEVELS[params.type] or vim.log.levels.INFO)
end

-- Starting and ending -------------------------------------------------------------------------------------------------

local function spawn(dispatchers)
  local path = M.executable() or config.options.cmd[1]
  local command = vim.list_extend({ path }, vim.list_slice(config.options.cmd, 2))
  local on_exit = dispatchers.on_exit
  dispatchers = vim.tbl_extend('force', dispatchers, {
    on_exit = function(code, signal)
      last_exit = { code = code, signal = signal }
      -- Neovim's message has neither the reason nor what to do; `ended` says both.
      on_exit(0, 0)
    end,
  })
  return vim.lsp.rpc.start(command, dispatchers)
end

local function how_it_ended(exit)
  if exit.signal ~= 0 then
    return ('was killed by signal %d'):format(exit.signal)
  end
  return ('ended with exit code %d'):format(exit.code)
end

local function buffers_of(client_id)
  local bufs = {}
  for buf, id in pairs(attached) do
    if id == client_id then
      table.insert(bufs, buf)
    end
  end
  return bufs
end

--- Takes away what is shown in buffers whose server is gone.
local function take_back(bufs)
  for _, buf in ipairs(bufs) do
    attached[buf] = nil
    heat.detach(buf)
  end
end

local function ended(exit, client_id, left)
  take_back(left)
  local status = statuses[client_id]
  statuses[client_id] = nil
  vim.cmd.redrawstatus({ bang = true })
  local expected = asked_to_stop[client_id] or exit.code == 0 and (exit.signal == 0 or exit.signal == 15)
  asked_to_stop[client_id] = nil
  if expected or vim.v.exiting ~= vim.NIL then
    return
  end
  util.forget()
  local how = how_it_ended(exit)
  local advice = 'Its messages are in :LineLens log; :LineLens restart starts it.'
  if not status then
    failed = true
    util.error(('the server %s before it was ready. %s :LineLens health tells what is missing.'):format(how, advice))
    return
  end
  local now = vim.uv.now() / 1000
  ends = vim.tbl_filter(function(time)
    return now - time < RESTART_WINDOW_S
  end, ends)
  table.insert(ends, now)
  if #ends > MOST_RESTARTS then
    failed = true
    local text = 'the server %s, %d times in %d minutes, so it is not started again. %s'
    util.error(text:format(how, #ends, RESTART_WINDOW_S / 60, advice))
    return
  end
  util.warn(('the server %s; it is being started again. Its messages are in :LineLens log.'):format(how))
  vim.defer_fn(function()
    for _, buf in ipairs(left) do
      if M.wants(buf) then
        M.start(buf)
      end
    end
  end, RESTART_DELAY_MS)
end

--- The folder of a buffer's project; without one, the folder that Neovim works in, if it holds the file.
local function root_of(buf)
  local root = vim.fs.root(buf, config.options.root_markers)
  local here, file = vim.fs.normalize(vim.fn.getcwd()), vim.fs.normalize(vim.api.nvim_buf_get_name(buf))
  if not root and here ~= '/' and here ~= vim.fs.normalize('~') and vim.startswith(file, here .. '/') then
    root = here
  end
  return root
end

--- The root of a buffer's workspace; nothing where the server cannot be started for it.
local function root_dir(buf, on_dir)
  if not is_file(buf) then
    return
  end
  local path, problem = M.executable()
  if not path then
    failed = true
    util.once(problem)
    return
  end
  on_dir(root_of(buf))
end

--- Neovim's own handler, but for answers of a server that was told to stop: it refuses what it is asked after that.
local function until_stopped(method)
  return function(problem, result, context, options)
    if problem and asked_to_stop[context.client_id] then
      return nil
    end
    return vim.lsp.handlers[method](problem, result, context, options)
  end
end

--- For `vim.lsp.config`; `lsp/linelens.lua` returns it.
function M.config()
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.experimental = vim.tbl_extend('force', capabilities.experimental or {}, {
    linelens = { relevance = true },
  })
  return {
    cmd = spawn,
    filetypes = config.options.filetypes,
    root_dir = root_dir,
    capabilities = capabilities,
    before_init = function(params)
      params.initializationOptions =
        vim.tbl_extend('force', vim.empty_dict(), config.options.settings, params.initializationOptions or {})
    end,
    on_init = function(client)
      local settings = vim.tbl_extend('force', vim.empty_dict(), config.options.settings)
      client.settings = vim.tbl_deep_extend('keep', client.settings or {}, { linelens = settings })
    end,
    -- Of code actions and lenses, Neovim itself shows no results.
    commands = require('linelens.actions').commands,
    handlers = {
      ['linelens/relevance'] = util.guard('linelens/relevance', on_relevance),
      ['linelens/status'] = util.guard('linelens/status', on_status),
      ['window/showMessage'] = util.guard('window/showMessage', on_message),
      -- Neovim sends these by itself.
      ['textDocument/codeLens'] = until_stopped('textDocument/codeLens'),
      ['textDocument/inlayHint'] = until_stopped('textDocument/inlayHint'),
    },
    on_exit = function(code, signal, client_id)
      local exit = code == 0 and last_exit or { code = code, signal = signal }
      last_exit = nil
      -- Neovim detaches the buffers later.
      local left = buffers_of(client_id)
      vim.schedule(util.guard('the end of the server', function()
        ended(exit, client_id, left)
      end))
    end,
  }
end

--- The configuration with what the user set by `vim.lsp.config` (Neovim 0.11).
local function merged_config()
  if vim.fn.has('nvim-0.11') == 1 then
    return vim.lsp.config[M.NAME]
  end
  local ours = M.config()
  ours.name = M.NAME
  return ours
end

--- Starts the server for a buffer, or attaches the one that is there.
function M.start(buf)
  local ours = merged_config()
  local function on_dir(root)
    local options = vim.tbl_extend('force', ours, { name = M.NAME })
    options.root_dir = root
    vim.lsp.start(options, { bufnr = buf })
  end
  if type(ours.root_dir) == 'function' then
    ours.root_dir(buf, on_dir)
  else
    on_dir(ours.root_dir or root_of(buf))
  end
end

--- Notes that a buffer has a server, or has none any more.
function M.attach(buf, client)
  attached[buf] = client.id
  heat.attach(buf)
end

function M.detach(buf)
  attached[buf] = nil
  heat.detach(buf)
end

--- Stops all our servers. `done` is called when they are gone.
function M.stop(done)
  for _, client in ipairs(vim.lsp.get_clients({ name = M.NAME })) do
    asked_to_stop[client.id] = true
    take_back(buffers_of(client.id))
    util.call(client, 'stop')
  end
  ends = {}
  local tries = 0
  local function look()
    tries = tries + 1
    local left = vim.lsp.get_clients({ name = M.NAME })
    if #left > 0 and tries < 100 then
      if tries == 60 then
        for _, client in ipairs(left) do
          util.call(client, 'stop', true)
        end
      end
      vim.defer_fn(look, 50)
    elseif done then
      done()
    end
  end
  look()
end

--- Starts the server for every buffer that should have one.
function M.start_all()
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if M.wants(buf) then
      M.start(buf)
    end
  end
end

function M.restart()
  util.forget()
  M.stop(function()
    M.start_all()
  end)
end

-- Requests ------------------------------------------------------------------------------------------------------------

--- Where the cursor of a window is, in the server's encoding.
function M.place(client, window)
  window = window or vim.api.nvim_get_current_win()
  local buf = vim.api.nvim_win_get_buf(window)
  return {
    textDocument = { uri = vim.uri_from_bufnr(buf) },
    position = vim.lsp.util.make_position_params(window, M.encoding(client)).position,
  }
end

--- Sends a request; `on_result` gets an answer, `on_problem` a sentence. Returns the request's number.
function M.request(client, method, params, buf, on_result, on_problem)
  local function answered(problem, result)
    if not problem then
      if result == vim.NIL then
        result = nil
      end
      on_result(result)
    elseif not SILENT[problem.code] then
      local text = util.reason(problem)
      if problem.code == METHOD_NOT_FOUND then
        text = ('this server does not offer %s; a newer linelens may'):format(method)
      end
      on_problem(text)
    end
  end
  local sent, id = util.call(client, 'request', method, params, util.guard('the answer to ' .. method, answered), buf)
  if not sent then
    on_problem('the server is not running. :LineLens restart starts it')
  end
  return sent and id or nil
end

--- Whether the server says that it has a command.
function M.has_command(client, name)
  local provider = client.server_capabilities.executeCommandProvider
  return provider ~= nil and vim.tbl_contains(provider.commands or {}, name)
end

--- Runs a command of the server. What goes wrong is said.
function M.command(client, name, arguments, buf, on_result)
  if not M.has_command(client, name) then
    local version = client.server_info and client.server_info.version
    local which = version and ('linelens ' .. version) or 'this server'
    util.warn(('%s does not offer `%s`; a newer linelens may. What it offers: :LineLens health'):format(which, name))
    return
  end
  local params = { command = name, arguments = arguments }
  M.request(client, 'workspace/executeCommand', params, buf, on_result, util.error)
end

--- Asks the server to explain the function at the cursor of a window.
function M.explain(client, window, method, on_result, on_problem)
  local params = M.place(client, window)
  params.method = method
  local buf = vim.api.nvim_win_get_buf(window)
  return M.request(client, 'linelens/explain', params, buf, on_result, on_problem)
end

return M
