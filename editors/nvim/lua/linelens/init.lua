--- linelens in Neovim: shades the lines that moved a vulnerability detector's verdict. `:help linelens`.

local client_of = require('linelens.client')
local colours = require('linelens.colours')
local config = require('linelens.config')
local cursor = require('linelens.cursor')
local heat = require('linelens.heat')
local util = require('linelens.util')

local M = {}

local group, started

local function client_in(event)
  local client = vim.lsp.get_client_by_id(event.data.client_id)
  return client and client.name == client_of.NAME and client or nil
end

local function autocmd(events, callback, pattern)
  vim.api.nvim_create_autocmd(events, {
    group = group,
    pattern = pattern,
    callback = util.guard(type(events) == 'table' and events[1] or events, function(event)
      callback(event)
    end),
  })
end

local function report_problems()
  for _, problem in ipairs(config.problems) do
    util.once(problem, vim.log.levels.WARN)
  end
end

--- Watches for files and colour schemes; `plugin/linelens.lua` and `setup` call it, the first time counts.
function M.start()
  if started then
    return
  end
  started = true
  config.ensure()
  report_problems()
  group = vim.api.nvim_create_augroup('linelens', { clear = true })
  local buffers = vim.api.nvim_create_augroup('linelens.buffers', { clear = true })
  colours.apply()
  autocmd('ColorScheme', colours.apply)
  autocmd('OptionSet', function()
    vim.schedule(colours.apply)
  end, { 'background', 'termguicolors' })
  autocmd('LspAttach', function(event)
    local client = client_in(event)
    if client then
      client_of.attach(event.buf, client)
      cursor.attach(event.buf, buffers)
    end
  end)
  autocmd('LspDetach', function(event)
    if client_in(event) then
      client_of.detach(event.buf)
      cursor.detach(event.buf, buffers)
    end
  end)
  autocmd('FileType', function(event)
    if config.options.autostart and client_of.wants(event.buf) then
      client_of.start(event.buf)
    end
  end)
  if config.options.autostart then
    client_of.start_all()
  end
end

--- Optional: `:help linelens-options` lists the options.
function M.setup(options)
  local before = config.options
  config.load(options)
  if not started then
    M.start()
    return
  end
  report_problems()
  heat.refresh()
  local restarts = not vim.deep_equal(before.cmd, config.options.cmd)
    or not vim.deep_equal(before.settings, config.options.settings)
  if restarts and #vim.lsp.get_clients({ name = client_of.NAME }) > 0 then
    client_of.restart()
  elseif config.options.autostart then
    client_of.start_all()
  end
end

local function escaped(text)
  return (text:gsub('%%', '%%%%'))
end

--- What the server is doing and says of the function under the cursor, for 'statusline'; empty for other buffers.
function M.statusline()
  local window = vim.g.statusline_winid
  if type(window) ~= 'number' or not vim.api.nvim_win_is_valid(window) then
    window = vim.api.nvim_get_current_win()
  end
  local buf = vim.api.nvim_win_get_buf(window)
  local client = client_of.of(buf)
  if not client then
    return client_of.wants(buf) and client_of.has_failed() and 'linelens: not running, see :LineLens health' or ''
  end
  local status = client_of.status(client)
  if not status then
    return 'linelens: starting'
  elseif status.health == 'error' then
    return 'linelens: error, see :LineLens health'
  end
  local parts = { status.method, status.executionProvider }
  local finding = cursor.finding(window)
  if finding then
    local word = finding.ignored and ' ignored' or finding.flagged and ' flagged' or ''
    local verdict = ('p %.2f%s'):format(finding.probability, word)
    parts = { finding.method, finding.executionProvider, verdict }
  end
  if status.health == 'warning' then
    table.insert(parts, 'warning')
  end
  if not status.quiescent then
    table.insert(parts, 'busy')
  end
  return escaped('linelens: ' .. table.concat(parts, ' · '))
end

return M
