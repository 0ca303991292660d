--- `:LineLens`: its subcommands, their completion, and what they show.

local actions = require('linelens.actions')
local client_of = require('linelens.client')
local config = require('linelens.config')
local heat = require('linelens.heat')
local util = require('linelens.util')

local M = {}

local LABELS = { 'vulnerable', 'benign', 'unsure' }
local FORMATS = { 'html', 'sarif' }
local SWITCHES = { 'shading', 'scores', 'signs', 'unseen' }

-- What commands have in common ---------------------------------------------------------------------------------------

--- The server of the current buffer; says why there is none.
local function present()
  local buf = vim.api.nvim_get_current_buf()
  local client = client_of.of(buf)
  if client then
    return client, buf
  end
  local path, problem = client_of.executable()
  if not path then
    util.warn(problem)
  elseif not client_of.wants(buf) then
    local types = table.concat(config.options.filetypes, ', ')
    util.warn(('this buffer is no file of a type that linelens reads (%s)'):format(types))
  else
    util.warn('the server is not running for this buffer. :LineLens start starts it')
  end
end

--- Runs a server command, and shows its result.
local function run(name, arguments)
  local client, buf = present()
  if client then
    actions.run(client, buf, name, arguments)
  end
end

--- Runs a server command about the place of the cursor.
local function at_cursor(name, more)
  local client, buf = present()
  if client then
    actions.run(client, buf, name, { vim.tbl_extend('force', client_of.place(client), more or {}) })
  end
end

--- Lets the user choose where nothing was named.
local function choose(prompt, choices, given, on_choice)
  if given and given ~= '' then
    on_choice(given)
  elseif #choices == 0 then
    util.warn('nothing to choose from yet: the model is not loaded. :LineLens health tells more')
  else
    vim.ui.select(choices, { prompt = prompt }, function(choice)
      if choice then
        on_choice(choice)
      end
    end)
  end
end

local function known(field)
  local status = client_of.status(client_of.of(vim.api.nvim_get_current_buf()))
  return status and status[field] or {}
end

-- The subcommands -----------------------------------------------------------------------------------------------------

local function explain(words)
  local client, buf = present()
  if not client then
    return
  end
  heat.forget_own(buf)
  local window = vim.api.nvim_get_current_win()
  client_of.explain(client, window, words[1], function(finding)
    if finding and words[1] then
      heat.show(buf, finding)
    end
    actions.show(buf, 'linelens.explain', finding)
  end, util.error)
end

local function method(words)
  if words[1] == 'next' then
    return run('linelens.nextMethod')
  end
  if present() then
    choose('Explain by', known('methods'), words[1], function(choice)
      run('linelens.setMethod', { choice })
    end)
  end
end

local function model(words)
  if present() then
    choose('Model', known('models'), words[1], function(choice)
      run('linelens.setModel', { choice })
    end)
  end
end

--- Goes to the nearest row of `rows` after (or before) the cursor; behind the last comes the first.
local function jump(rows, forwards)
  local here = vim.api.nvim_win_get_cursor(0)[1] - 1
  local goal = forwards and rows[1] or rows[#rows]
  for _, row in ipairs(rows) do
    if forwards and row > here then
      goal = row
      break
    elseif not forwards and row < here then
      goal = row
    end
  end
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_cursor(0, { goal + 1, 0 })
  vim.cmd('normal! ^')
end

local function jumper(forwards)
  return function()
    local client, buf = present()
    if not client then
      return
    end
    local rows = heat.top_rows(buf)
    if #rows > 0 then
      jump(rows, forwards)
    else
      util.info('no function of this file is flagged, and none was explained. :LineLens explain explains one')
    end
  end
end

local function pair(words)
  local revision = words[1] and { revision = words[1] } or nil
  at_cursor('linelens.comparePair', revision)
end

local function compare(words)
  local what = words[1] or 'methods'
  if what == 'methods' then
    at_cursor('linelens.compareMethods')
  elseif what == 'models' then
    at_cursor('linelens.compareModels', words[2] and { model = words[2] } or nil)
  elseif what == 'pair' then
    pair({ words[2] })
  else
    util.warn(('compare takes methods, models or pair, not `%s`'):format(what))
  end
end

local function toggle(words)
  local what = words[1]
  if what and not vim.tbl_contains(SWITCHES, what) then
    return util.warn(('toggle takes %s, or nothing for all, not `%s`'):format(table.concat(SWITCHES, ', '), what))
  end
  -- Without a name: all off, and all back to what the options say.
  local was_on = heat.is_on(what or 'shading')
  for _, switch in ipairs(what and { what } or SWITCHES) do
    if what then
      heat.switched[switch] = not was_on
    elseif was_on then
      heat.switched[switch] = false
    else
      heat.switched[switch] = nil
    end
  end
  if not what and not was_on then
    heat.switched.shading = true
  end
  heat.refresh()
  local on = vim.tbl_filter(heat.is_on, SWITCHES)
  util.info(#on > 0 and 'shown: ' .. table.concat(on, ', ') or 'nothing is shown')
end

local function label(words)
  if present() then
    choose('Label the function', LABELS, words[1], function(choice)
      at_cursor('linelens.setLabel', { label = choice })
    end)
  end
end

local function mark()
  at_cursor('linelens.toggleGroundTruthLine')
end

--- A command with a text, which is asked for where it was not given.
local function with_text(name, field)
  return function(words)
    at_cursor(name, #words > 0 and { [field] = table.concat(words, ' ') } or nil)
  end
end

--- The workspace folder of a file, as an address.
local function folder_of(client, buf)
  local path = vim.api.nvim_buf_get_name(buf)
  for _, folder in ipairs(client.workspace_folders or {}) do
    if vim.startswith(path, vim.uri_to_fname(folder.uri) .. '/') then
      return folder.uri
    end
  end
end

local function report(words)
  local client, buf = present()
  if not client then
    return
  end
  local argument = { format = words[1] or 'html', file = words[2], folder = folder_of(client, buf) }
  if not argument.folder then
    argument.textDocument = { uri = vim.uri_from_bufnr(buf) }
  end
  actions.run(client, buf, 'linelens.exportReport', { argument })
end

local function analyze(words)
  if (words[1] or 'file') == 'file' then
    run('linelens.analyzeFile', { { textDocument = { uri = vim.uri_from_bufnr(0) } } })
  elseif words[1] == 'workspace' then
    run('linelens.analyzeWorkspace')
  else
    util.warn(('analyze takes file or workspace, not `%s`'):format(words[1]))
  end
end

local function reload()
  run('linelens.reload')
end

local function start()
  local buf = vim.api.nvim_get_current_buf()
  if client_of.of(buf) then
    util.info('the server is running')
  elseif client_of.wants(buf) then
    util.forget()
    client_of.start(buf)
  else
    present()
  end
end

local function stop()
  if #vim.lsp.get_clients({ name = client_of.NAME }) == 0 then
    util.info('no server is running')
  end
  client_of.stop()
end

local function log()
  vim.cmd.tabedit(vim.fn.fnameescape(vim.lsp.get_log_path()))
  vim.cmd('normal! G')
end

local function methods()
  return known('methods')
end

local function constant(...)
  local words = { ... }
  return function()
    return words
  end
end

--- Each subcommand: what it does, and what can follow it, word by word.
M.subcommands = {
  analyze = { analyze, constant('file', 'workspace') },
  compare = { compare, constant('methods', 'models', 'pair'), function(words)
    return words[2] == 'models' and known('models') or {}
  end },
  explain = { explain, methods },
  health = { function()
    vim.cmd.checkhealth('linelens')
  end },
  ignore = { with_text('linelens.ignore', 'reason') },
  label = { label, constant(unpack(LABELS)) },
  log = { log },
  mark = { mark },
  method = { method, function()
    return vim.list_extend({ 'next' }, methods())
  end },
  model = { model, function()
    return known('models')
  end },
  next = { jumper(true) },
  note = { with_text('linelens.addNote', 'note') },
  pair = { pair, constant('HEAD', 'HEAD~1') },
  prev = { jumper(false) },
  reload = { reload },
  report = { report, constant(unpack(FORMATS)), function(words)
    return vim.fn.getcompletion(words[3] or '', 'file')
  end },
  restart = { client_of.restart },
  start = { start },
  stop = { stop },
  toggle = { toggle, constant(unpack(SWITCHES)) },
}

--- `:LineLens WORD…`
function M.run(words)
  if #words == 0 then
    words = { 'explain' }
  end
  local name = table.remove(words, 1)
  local entry = M.subcommands[name]
  if not entry then
    local names = vim.tbl_keys(M.subcommands)
    table.sort(names)
    return util.warn(('there is no :LineLens %s; there are %s'):format(name, table.concat(names, ', ')))
  end
  entry[1](words)
end

--- Completion of the word that the cursor is in.
function M.complete(lead, line)
  local words = vim.split(vim.trim(line:gsub('^.-LineLens!?', '', 1)), '%s+', { trimempty = true })
  if lead ~= '' then
    table.remove(words)
  end
  local candidates
  if #words == 0 then
    candidates = vim.tbl_keys(M.subcommands)
    table.sort(candidates)
  else
    local entry = M.subcommands[words[1]]
    local completer = entry and entry[#words + 1]
    candidates = completer and completer(vim.list_extend(words, { lead })) or {}
  end
  return vim.tbl_filter(function(candidate)
    return vim.startswith(candidate, lead)
  end, candidates)
end

return M
