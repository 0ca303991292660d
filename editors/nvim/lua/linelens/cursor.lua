--- Follows the cursor: asks for the function that holds it, after a pause, and only if it may be another one.

local client_of = require('linelens.client')
local config = require('linelens.config')
local heat = require('linelens.heat')
local util = require('linelens.util')

local M = {}

local timer
--- Of each buffer: what was asked for last.
local asked = {}

--- Of each buffer: the last answer.
M.findings = {}

local function cancel(client, state)
  if state and state.id then
    util.call(client, 'cancel_request', state.id)
    state.id = nil
  end
end

--- The finding of the function at the cursor of a window, if it is known and of this text.
function M.finding(window)
  local buf = vim.api.nvim_win_get_buf(window)
  local row = vim.api.nvim_win_get_cursor(window)[1] - 1
  local known = M.findings[buf]
  if known and known.tick == vim.api.nvim_buf_get_changedtick(buf) and known.finding then
    local place = known.finding['function']
    if place.startLine <= row and row <= place.endLine then
      return known.finding
    end
  end
  return (heat.at(buf, row))
end

local function is_answered(state, row, column, tick)
  if not state or state.tick ~= tick then
    return false
  end
  -- Other functions can stand on a function's first and last line.
  return state.row == row and state.column == column
    or state.first ~= nil and state.first < row and row < state.last
end

local function ask()
  local buf = vim.api.nvim_get_current_buf()
  local client = client_of.of(buf)
  if not client or not config.options.follow or vim.api.nvim_get_mode().mode:find('^[iR]') then
    return
  end
  -- Without a model every question has the answer that was given already.
  local status = client_of.status(client)
  if status and status.health == 'error' then
    return
  end
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  row = row - 1
  local tick = vim.api.nvim_buf_get_changedtick(buf)
  if is_answered(asked[buf], row, column, tick) then
    return
  end
  cancel(client, asked[buf])
  local state = { row = row, column = column, tick = tick }
  asked[buf] = state
  state.id = client_of.explain(client, vim.api.nvim_get_current_win(), nil, function(finding)
    state.id = nil
    M.findings[buf] = { tick = tick, finding = finding }
    if finding then
      state.first, state.last = finding['function'].startLine, finding['function'].endLine
    end
    vim.cmd.redrawstatus()
  end, function(problem)
    state.id = nil
    util.once(problem, vim.log.levels.WARN)
  end)
end

--- Of each buffer: the rows that the server was told are visible.
local visible = {}

--- Tells the server what is visible, which it takes from requests for inlay hints; with hints on, Neovim asks for them.
local function tell_visible()
  local buf = vim.api.nvim_get_current_buf()
  local client = client_of.of(buf)
  if not client or not client.server_capabilities.inlayHintProvider
    or vim.lsp.inlay_hint.is_enabled({ bufnr = buf })
  then
    return
  end
  local first, last = vim.fn.line('w0') - 1, vim.fn.line('w$') - 1
  local told = visible[buf]
  if told and told[1] == first and told[2] == last and told[3] == client.id then
    return
  end
  visible[buf] = { first, last, client.id }
  client_of.request(client, 'textDocument/inlayHint', {
    textDocument = { uri = vim.uri_from_bufnr(buf) },
    range = { start = { line = first, character = 0 }, ['end'] = { line = last, character = 0 } },
  }, buf, function() end, function() end)
end

--- The cursor moved, or the text changed: asks after the pause.
function M.moved()
  timer = timer or vim.uv.new_timer()
  timer:start(config.options.debounce_ms, 0, vim.schedule_wrap(util.guard('following the cursor', function()
    tell_visible()
    ask()
  end)))
end

--- The next move asks in any case.
function M.forget(buf)
  asked[buf], M.findings[buf], visible[buf] = nil, nil, nil
end

function M.attach(buf, group)
  vim.api.nvim_clear_autocmds({ group = group, buffer = buf })
  vim.api.nvim_create_autocmd({ 'CursorMoved', 'CursorHold', 'InsertLeave', 'TextChanged', 'BufEnter' }, {
    group = group,
    buffer = buf,
    callback = util.guard('CursorMoved', function()
      M.moved()
    end),
  })
  if vim.api.nvim_get_current_buf() == buf then
    M.moved()
  end
end

function M.detach(buf, group)
  vim.api.nvim_clear_autocmds({ group = group, buffer = buf })
  M.forget(buf)
end

return M
