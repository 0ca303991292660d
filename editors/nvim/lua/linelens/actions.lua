--- Commands of the server: what is asked for before, and how each result is shown. Code actions, code lenses and
--- `:LineLens` all come here.

local config = require('linelens.config')
local heat = require('linelens.heat')
local util = require('linelens.util')

local M = {}

-- Showing -------------------------------------------------------------------------------------------------------------

local function message(_, result)
  util.info(result.message or 'done')
end

local function content(_, result)
  require('linelens.window').text(result.content.uri, result.content.text)
end

--- Two versions; the server says what it took for a function that is in no pair.
local function pair(buf, result)
  local revision = result.revision
  if revision and revision.byDefault then
    local name = result.after['function'].name
    util.info(('%s is in no pair; comparing with %s (%s)'):format(name, revision.name, revision.commit:sub(1, 7)))
  end
  content(buf, result)
end

--- Asks anew for the function under the cursor.
local function ask_again(buf)
  local cursor = require('linelens.cursor')
  heat.forget_own(buf)
  cursor.forget(buf)
  cursor.moved()
end

local function method(buf, name)
  ask_again(buf)
  util.info(('explaining by %s'):format(name))
end

local function model(buf, name)
  ask_again(buf)
  util.info(('the model is %s'):format(name))
end

local function status(buf, now)
  ask_again(buf)
  local loaded = now.model and ('%s on %s'):format(now.model, now.executionProvider)
  util.info(loaded or 'read again, but there is no model. :LineLens health tells why')
end

local function finding(_, found)
  local best = vim.tbl_filter(config.is_top, found.lines)
  table.sort(best, function(a, b)
    return a.rank < b.rank
  end)
  local numbers = vim.tbl_map(function(line)
    return line.line + 1
  end, best)
  local verdict = found.flagged and 'flagged' or 'not flagged'
  local text = ('%s: p %.2f, %s · %s · lines %s'):format(
    found['function'].name, found.probability, verdict, found.method, table.concat(numbers, ', '))
  if found.completenessGap then
    text = text .. (' · completeness gap %.3g'):format(found.completenessGap)
  end
  if #found.unseenLines > 0 then
    text = text .. (' · %s not seen by the model'):format(util.count(#found.unseenLines, 'line'))
  end
  util.info(text)
end

local function report(_, result)
  local where = vim.fn.fnamemodify(vim.uri_to_fname(result.file), ':~:.')
  local flagged = util.count(result.flagged, 'flagged function')
  util.info(('%s: %s, %d of them ignored'):format(where, flagged, result.ignored))
end

--- Flagged functions of files into the quickfix list, and a sentence about the rest.
local function analysis(_, result)
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
  local text = ('%s in %s: %d flagged, %d ignored, %d not analysed'):format(
    util.count(result.functions, 'function'), util.count(result.files, 'file'), #result.flagged, result.ignored or 0,
    #result.failed + #result.unreadable)
  util.info(text .. (#items > 0 and '; :copen lists them' or ''))
end

local SHOW = {
  ['linelens.addNote'] = message,
  ['linelens.analyzeFile'] = analysis,
  ['linelens.analyzeWorkspace'] = analysis,
  ['linelens.compareMethods'] = content,
  ['linelens.compareModels'] = content,
  ['linelens.comparePair'] = pair,
  ['linelens.explain'] = finding,
  ['linelens.exportReport'] = report,
  ['linelens.ignore'] = message,
  ['linelens.nextMethod'] = method,
  ['linelens.reload'] = status,
  ['linelens.setLabel'] = message,
  ['linelens.setMethod'] = method,
  ['linelens.setModel'] = model,
  ['linelens.toggleGroundTruthLine'] = message,
}

--- What the server leaves to the user: the field of the argument, and the question.
local ASK = {
  ['linelens.addNote'] = { 'note', 'Note on this function (empty: take it back): ' },
  ['linelens.ignore'] = { 'reason', 'Ignore this function, because (empty: take it back): ' },
}

--- Shows the result of a command.
function M.show(buf, name, result)
  if result == nil then
    util.info('the cursor is in no function that linelens can read')
  elseif vim.api.nvim_buf_is_valid(buf) then
    SHOW[name](buf, result)
  end
end

-- Running -------------------------------------------------------------------------------------------------------------

local function send(client, buf, name, arguments)
  require('linelens.client').command(client, name, arguments, buf, function(result)
    M.show(buf, name, result)
  end)
end

--- Runs a command of the server, after asking for what is missing, and shows its result.
function M.run(client, buf, name, arguments)
  local question, argument = ASK[name], arguments and arguments[1]
  if not question or not argument or argument[question[1]] then
    return send(client, buf, name, arguments)
  end
  vim.ui.input({ prompt = question[2] }, function(text)
    if text then
      send(client, buf, name, { vim.tbl_extend('force', argument, { [question[1]] = text }) })
    end
  end)
end

--- For Neovim's client: the commands of code actions and code lenses.
M.commands = {}
for name in pairs(SHOW) do
  M.commands[name] = util.guard(name, function(command, context)
    local client = vim.lsp.get_client_by_id(context.client_id)
    if client then
      if name == 'linelens.explain' then
        ask_again(context.bufnr)
      end
      M.run(client, context.bufnr, name, command.arguments)
    end
  end)
end

return M
