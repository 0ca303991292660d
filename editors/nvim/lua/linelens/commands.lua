--- `:LineLens`: its subcommands, their completion, and what they show.

local client_of = require('linelens.client')
local config = require('linelens.config')
local cursor = require('linelens.cursor')
local heat = require('linelens.heat')
local util = require('linelens.util')
local window_for = require('linelens.window')

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

local function or_no_function(buf, on_result)
  return function(result)
    if result == nil then
      util.info('the cursor is in no function that linelens can read')
    elseif vim.api.nvim_buf_is_valid(buf) then
      on_result(result)
    end
  end
end

--- Runs a server command about the place of the cursor.
local function at_cursor(name, more, on_result)
  local client, buf = present()
  if client then
    local argument = vim.tbl_extend('force', client_of.place(client), more or {})
    client_of.command(client, name, { argument }, buf, or_no_function(buf, on_result))
  end
end

local function say_message(result)
  util.info(result.message or 'done')
end

local function show_content(result)
  window_for.text(result.content.uri, result.content.text)
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

local function summary(finding)
  local best = vim.tbl_filter(function(line)
    return line.rank <= config.options.top
  end, finding.lines)
  table.sort(best, function(a, b)
    return a.rank < b.rank
  end)
  local numbers = vim.tbl_map(function(line)
    return line.line + 1
  end, best)
  local verdict = finding.flagged and 'flagged' or 'not flagged'
  local text = ('%s: p %.2f, %s · %s · lines %s'):format(
    finding['function'].name, finding.probability, verdict, finding.method, table.concat(numbers, ', '))
  if finding.completenessGap then
    text = text .. (' · completeness gap %.3g'):format(finding.completenessGap)
  end
  if #finding.unseenLines > 0 then
    text = text .. (' · %d lines not seen by the model'):format(#finding.unseenLines)
  end
  return text
end

-- The subcommands -----------------------------------------------------------------------------------------------------

local function explain(words)
  local client, buf = present()
  if not client then
    return
  end
  heat.forget_own(buf)
  local window = vim.api.nvim_get_current_win()
  client_of.explain(client, window, words[1], or_no_function(buf, function(finding)
    if words[1] then
      heat.show(buf, finding)
    end
    util.info(summary(finding))
  end), util.error)
end

local function use_method(name, argument)
  local client, buf = present()
  if client then
    client_of.command(client, name, argument and { argument } or nil, buf, function(method)
      heat.forget_own(buf)
      cursor.forget(buf)
      cursor.moved()
      util.info(('explaining by %s'):format(method))
    end)
  end
end

local function method(words)
  if words[1] == 'next' then
    return use_method('linelens.nextMethod')
  end
  if present() then
    choose('Explain by', known('methods'), words[1], function(choice)
      use_method('linelens.setMethod', choice)
    end)
  end
end

local function model(words)
  local client, buf = present()
  if not client then
    return
  end
  choose('Model', known('models'), words[1], function(choice)
    client_of.command(client, 'linelens.setModel', { choice }, buf, function(name)
      cursor.forget(buf)
      cursor.moved()
      util.info(('the model is %s'):format(name))
    end)
  end)
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
  at_cursor('linelens.comparePair', revision, show_content)
end

local function compare(words)
  local what = words[1] or 'methods'
  if what == 'methods' then
    at_cursor('linelens.compareMethods', nil, show_content)
  elseif what == 'models' then
    at_cursor('linelens.compareModels', words[2] and { model = words[2] } or nil, show_content)
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
end

local function label(words)
  if present() then
    choose('Label the function', LABELS, words[1], function(choice)
      at_cursor('linelens.setLabel', { label = choice }, say_message)
    end)
  end
end

local function mark()
  at_cursor('linelens.toggleGroundTruthLine', nil, say_message)
end

--- Runs a command with a text, which is asked for where it was not given.
local function with_text(name, field, prompt)
  return function(words)
    if not present() then
      return
    end
    local function go(text)
      at_cursor(name, { [field] = text }, say_message)
    end
    if #words > 0 then
      return go(table.concat(words, ' '))
    end
    vim.ui.input({ prompt = prompt }, function(text)
      if text then
        go(text)
      end
    end)
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
  client_of.command(client, 'linelens.exportReport', { argument }, buf, function(result)
    local where = vim.fn.fnamemodify(vim.uri_to_fname(result.file), ':~:.')
    util.info(('%s: %d flagged functions, %d of them ignored'):format(where, result.flagged, result.ignored))
  end)
end

--- Flagged functions of files into the quickfix list, and a sentence about the rest.
local function show_analysis(result)
  local items = {}
  for _, flagged in ipairs(result.flagged) do
    table.insert(items, {
      filename = vim.uri_to_fname(flagged.uri),
      lnum = flagged['function'].startLine + 1,
      type = 'I',
      text = ('%s: p %.2f, above %.2f'):format(flagged['function'].name, flagged.probability, flagged.threshold),
    })
  end
  for _, failed in ipairs(result.failed) do
    table.insert(items, {
      filename = vim.uri_to_fname(failed.uri),
      type = 'W',
      text = ('%s was not analysed: %s'):format(failed['function'], failed.reason),
    })
  end
  for _, sentence in ipairs(result.unreadable) do
    table.insert(items, { type = 'W', text = sentence })
  end
  vim.fn.setqflist({}, ' ', { title = 'linelens', items = items })
  local text = ('%d functions in %d files: %d flagged, %d ignored, %d not analysed'):format(
    result.functions, result.files, #result.flagged, result.ignored or 0, #result.failed + #result.unreadable)
  util.info(text .. (#items > 0 and '; :copen lists them' or ''))
end

local function analyze(words)
  local client, buf = present()
  if not client then
    return
  end
  if (words[1] or 'file') == 'file' then
    local document = { textDocument = { uri = vim.uri_from_bufnr(buf) } }
    client_of.command(client, 'linelens.analyzeFile', { document }, buf, show_analysis)
  elseif words[1] == 'workspace' then
    client_of.command(client, 'linelens.analyzeWorkspace', nil, buf, show_analysis)
  else
    util.warn(('analyze takes file or workspace, not `%s`'):format(words[1]))
  end
end

local function reload()
  local client, buf = present()
  if client then
    client_of.command(client, 'linelens.reload', nil, buf, function(status)
      cursor.forget(buf)
      cursor.moved()
      local loaded = status and status.model and ('%s on %s'):format(status.model, status.executionProvider)
      util.info(loaded or 'read again, but there is no model. :LineLens health tells why')
    end)
  end
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
  ignore = { with_text('linelens.ignore', 'reason', 'Ignore this function, because: ') },
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
  note = { with_text('linelens.addNote', 'note', 'Note on this function (empty: take it back): ') },
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
