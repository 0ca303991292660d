--- What is drawn over a buffer: shaded lines, scores, signs of ground truth, unseen lines.
---
--- A function is drawn only while its text is the one that was analysed: an edit inside takes it away at once, edits
--- elsewhere move it along.

local colours = require('linelens.colours')
local config = require('linelens.config')
local util = require('linelens.util')

local M = {}

M.namespaces = {
  heat = vim.api.nvim_create_namespace('linelens.heat'),
  score = vim.api.nvim_create_namespace('linelens.score'),
  truth = vim.api.nvim_create_namespace('linelens.truth'),
  others = vim.api.nvim_create_namespace('linelens.others'),
  unseen = vim.api.nvim_create_namespace('linelens.unseen'),
}

--- Shown or hidden by `:LineLens toggle`; `nil`: as configured.
M.switched = {}

-- Below the colours of syntax, which keep their text; unseen text is dimmed above them.
local PRIORITY = { heat = 20, score = 20, truth = 20, unseen = 210 }
-- One turn of drawing takes the editor for no longer than this.
local SLICE_NS = 6e6
local PAUSE_MS = 2

--- Of each buffer: `shown`, the functions as they stand now, and `own`, one that was asked for by another method;
--- `sent`, what the server sent last.
local buffers = {}
local waiting, timer = {}, nil

local function is_on(what)
  local switched = M.switched[what]
  if what == 'scores' then
    return switched ~= false and (config.options.scores ~= 'off' or switched == true)
  end
  if switched ~= nil then
    return switched
  end
  return config.options[what]
end
M.is_on = is_on

-- Drawing -------------------------------------------------------------------------------------------------------------

local function label(line)
  -- Rescaling hides that a line spoke against the verdict.
  return ('%s %.2f%s'):format(colours.bar(line.score), line.score, line.raw < 0 and '−' or '')
end

--- Whether Neovim shows the server's own scores at the ends of lines.
local function has_inlay_hints(buf)
  local client = vim.lsp.get_clients({ bufnr = buf, name = 'linelens' })[1]
  return client ~= nil
    and client.server_capabilities.inlayHintProvider ~= nil
    and vim.lsp.inlay_hint.is_enabled({ bufnr = buf })
end

--- Ground-truth lines of a finding: from each to whether it may have changed since it was labelled.
local function true_lines(finding)
  local set = {}
  local alignment = finding.alignment
  for _, line in ipairs(type(alignment) == 'table' and alignment.lines or {}) do
    set[line] = false
  end
  for _, line in ipairs(finding.lines) do
    if line.groundTruth then
      set[line.line] = line.approximate == true
    end
  end
  return set
end

local function draw(buf, entry)
  local finding, offset = entry.finding, entry.offset
  local count = vim.api.nvim_buf_line_count(buf)
  local function mark(kind, line, options)
    local row = line + offset
    if row >= 0 and row < count then
      options.priority = PRIORITY[kind]
      options.undo_restore = false
      options.strict = false
      local id = vim.api.nvim_buf_set_extmark(buf, M.namespaces[kind], row, 0, options)
      table.insert(entry.marks, { M.namespaces[kind], id })
    end
  end
  if is_on('shading') then
    for _, line in ipairs(finding.lines) do
      local step = colours.step(line.score)
      if step > 0 then
        mark('heat', line.line, { line_hl_group = colours.group(step) })
      end
    end
  end
  if is_on('scores') and not has_inlay_hints(buf) then
    for _, line in ipairs(finding.lines) do
      if config.options.scores == 'all' or config.is_top(line) then
        mark('score', line.line, {
          virt_text = { { label(line), 'LinelensScore' } },
          virt_text_pos = 'eol',
          hl_mode = 'combine',
        })
      end
    end
  end
  if is_on('signs') then
    for line, is_changed in pairs(true_lines(finding)) do
      local text = is_changed and '~' or config.options.sign_text
      mark('truth', line, { sign_text = text, sign_hl_group = 'LinelensTruth' })
    end
  end
  if is_on('unseen') then
    local before
    for _, line in ipairs(finding.unseenLines) do
      local options = { end_row = line + offset + 1, end_col = 0, hl_group = 'LinelensUnseen' }
      if before ~= line - 1 then
        options.virt_text = { { 'not seen by the model', 'LinelensScore' } }
        options.virt_text_pos = 'eol'
        options.hl_mode = 'combine'
      end
      mark('unseen', line, options)
      before = line
    end
  end
  entry.drawn = true
end

local function erase(buf, entry)
  if vim.api.nvim_buf_is_valid(buf) then
    for _, mark in ipairs(entry.marks) do
      vim.api.nvim_buf_del_extmark(buf, mark[1], mark[2])
    end
  end
  entry.marks, entry.drawn = {}, false
end

--- The next function to draw: those on the screen first.
local function next_to_draw(buf, state)
  local rest
  local windows = vim.fn.win_findbuf(buf)
  for _, entry in ipairs(state.shown) do
    if not entry.drawn then
      for _, window in ipairs(windows) do
        local top, bottom = vim.fn.line('w0', window) - 1, vim.fn.line('w$', window) - 1
        if entry.first <= bottom and entry.last >= top then
          return entry
        end
      end
      rest = rest or entry
    end
  end
  return rest
end

local function draw_some()
  local deadline = vim.uv.hrtime() + SLICE_NS
  for buf in pairs(waiting) do
    local state = buffers[buf]
    while state and vim.api.nvim_buf_is_loaded(buf) do
      local entry = next_to_draw(buf, state)
      if not entry then
        break
      end
      draw(buf, entry)
      if vim.uv.hrtime() > deadline then
        return true
      end
    end
    waiting[buf] = nil
  end
  return false
end

local function pump()
  if timer then
    return
  end
  timer = vim.uv.new_timer()
  timer:start(0, 0, vim.schedule_wrap(util.guard('drawing', function()
    timer:close()
    timer = nil
    if draw_some() then
      vim.defer_fn(pump, PAUSE_MS)
    end
  end)))
end

local function redraw(buf)
  waiting[buf] = true
  pump()
end

--- Draws a buffer anew.
local function draw_anew(buf, state)
  for _, entry in ipairs(state.shown) do
    erase(buf, entry)
  end
  redraw(buf)
end

-- Neovim has no event for inlay hints that are switched; the screen is drawn then.
vim.api.nvim_set_decoration_provider(vim.api.nvim_create_namespace('linelens.hints'), {
  on_win = function(_, _, buf)
    local state = buffers[buf]
    local is_enabled = state ~= nil and vim.lsp.inlay_hint.is_enabled({ bufnr = buf })
    if state and state.has_hints ~= is_enabled then
      local is_change = state.has_hints ~= nil
      state.has_hints = is_enabled
      if is_change then
        vim.schedule(util.guard('inlay hints', function()
          if buffers[buf] == state then
            draw_anew(buf, state)
          end
        end))
      end
    end
    return false
  end,
})

-- What is known ------------------------------------------------------------------------------------------------------

local function new_entry(finding, offset)
  local place = finding['function']
  offset = offset or 0
  return {
    finding = finding,
    first = place.startLine + offset,
    last = place.endLine + offset,
    offset = offset,
    marks = {},
    drawn = false,
  }
end

--- Whether a finding says of the same lines what an entry shows.
local function is_same(entry, finding)
  local old, place = entry.finding, finding['function']
  if entry.first ~= place.startLine or entry.last ~= place.endLine or #old.lines ~= #finding.lines
    or #old.unseenLines ~= #finding.unseenLines
    or not vim.deep_equal(old.alignment and old.alignment.lines, finding.alignment and finding.alignment.lines)
  then
    return false
  end
  for index, line in ipairs(finding.lines) do
    local other = old.lines[index]
    if other.line + entry.offset ~= line.line or other.score ~= line.score or other.raw ~= line.raw
      or other.rank ~= line.rank or other.groundTruth ~= line.groundTruth
    then
      return false
    end
  end
  for index, line in ipairs(finding.unseenLines) do
    if old.unseenLines[index] + entry.offset ~= line then
      return false
    end
  end
  return true
end

local function find(entries, first, last)
  for index, entry in ipairs(entries) do
    if entry.first == first and entry.last == last then
      return entry, index
    end
  end
end

--- Shows exactly these findings, which belong to the present version. What is drawn already stays untouched.
local function replace(buf, findings)
  local state = buffers[buf]
  local old, by_start, shown = state.shown, {}, {}
  for _, entry in ipairs(old) do
    by_start[entry.first] = by_start[entry.first] or {}
    table.insert(by_start[entry.first], entry)
  end
  local own_is_there = false
  for _, finding in ipairs(findings) do
    local place = finding['function']
    local own = state.own
    if own and own.first == place.startLine and own.last == place.endLine then
      own_is_there = true
      table.insert(shown, own)
    else
      local kept
      for index, entry in ipairs(by_start[place.startLine] or {}) do
        if entry ~= own and is_same(entry, finding) then
          kept = entry
          kept.finding, kept.offset = finding, 0
          table.remove(by_start[place.startLine], index)
          break
        end
      end
      table.insert(shown, kept or new_entry(finding))
    end
  end
  if not own_is_there then
    state.own = nil
  end
  local stays = {}
  for _, entry in ipairs(shown) do
    stays[entry] = true
  end
  for _, entry in ipairs(old) do
    if not stays[entry] then
      erase(buf, entry)
    end
  end
  state.shown = shown
  redraw(buf)
end

--- Ground truth in functions that are not shaded.
local function sign_others(buf, state)
  vim.api.nvim_buf_clear_namespace(buf, M.namespaces.others, 0, -1)
  for _, line in ipairs(is_on('signs') and state.others or {}) do
    vim.api.nvim_buf_set_extmark(buf, M.namespaces.others, line.line, 0, {
      sign_text = line.approximate and '~' or config.options.sign_text,
      sign_hl_group = 'LinelensTruth',
      priority = PRIORITY.truth,
      undo_restore = false,
      strict = false,
    })
  end
end

--- `linelens/relevance`.
function M.relevance(buf, params)
  local state = buffers[buf]
  if state and params.textDocument.version == util.version(buf) then
    state.sent, state.others = params, params.groundTruth
    replace(buf, params.functions)
    sign_others(buf, state)
  end
end

--- Shows one finding in the place of what the server sends for its function, until that function is edited.
function M.show(buf, finding)
  local state = buffers[buf]
  if not state or finding.textDocument.version ~= util.version(buf) then
    return
  end
  local place = finding['function']
  local entry = new_entry(finding)
  local old, index = find(state.shown, place.startLine, place.endLine)
  if old then
    erase(buf, old)
    state.shown[index] = entry
  else
    table.insert(state.shown, entry)
  end
  state.own = entry
  redraw(buf)
end

--- From now on the server's findings count again, also for a function that was shown by another method.
function M.forget_own(buf)
  local state = buffers[buf]
  if state and state.own then
    state.own = nil
    -- For another version the server sends them anew.
    if state.sent and state.sent.textDocument.version == util.version(buf) then
      replace(buf, state.sent.functions)
    end
  end
end

--- Lines `first` to `last` (exclusive) became those up to `new_last`.
local function edited(buf, first, last, new_last)
  local state = buffers[buf]
  local moved, shown = new_last - last, {}
  for _, entry in ipairs(state.shown) do
    if first > entry.last then
      table.insert(shown, entry)
    elseif last <= entry.first then
      entry.first, entry.last = entry.first + moved, entry.last + moved
      entry.offset = entry.offset + moved
      table.insert(shown, entry)
    else
      erase(buf, entry)
      if state.own == entry then
        state.own = nil
      end
    end
  end
  state.shown = shown
end

-- Buffers ------------------------------------------------------------------------------------------------------------

function M.attach(buf)
  if buffers[buf] then
    return
  end
  buffers[buf] = { shown = {} }
  local state = buffers[buf]
  local on_lines = util.guard('following an edit', edited)
  vim.api.nvim_buf_attach(buf, false, {
    on_lines = function(_, _, _, first, last, new_last)
      if buffers[buf] ~= state then
        return true
      end
      on_lines(buf, first, last, new_last)
    end,
    on_reload = function()
      if buffers[buf] == state then
        state.others = nil
        replace(buf, {})
        vim.api.nvim_buf_clear_namespace(buf, M.namespaces.others, 0, -1)
      end
    end,
    on_detach = function()
      if buffers[buf] == state then
        M.detach(buf)
      end
    end,
  })
end

--- Takes everything away.
function M.detach(buf)
  buffers[buf], waiting[buf] = nil, nil
  if vim.api.nvim_buf_is_valid(buf) then
    for _, namespace in pairs(M.namespaces) do
      vim.api.nvim_buf_clear_namespace(buf, namespace, 0, -1)
    end
  end
end

--- Draws everything anew, after options or switches changed.
function M.refresh()
  for buf, state in pairs(buffers) do
    draw_anew(buf, state)
    -- For another version the server sends its lines anew.
    if not is_on('signs') or state.sent and state.sent.textDocument.version == util.version(buf) then
      sign_others(buf, state)
    end
  end
end

--- The finding that is shown for a row, moved to where the function stands now: the finding, and what to add to its
--- lines.
function M.at(buf, row)
  local best
  for _, entry in ipairs(buffers[buf] and buffers[buf].shown or {}) do
    if entry.first <= row and row <= entry.last and (not best or entry.first > best.first) then
      best = entry
    end
  end
  if best then
    return best.finding, best.offset
  end
end

--- Rows of the most relevant lines of all shown functions, in order.
function M.top_rows(buf)
  local rows = {}
  for _, entry in ipairs(buffers[buf] and buffers[buf].shown or {}) do
    for _, line in ipairs(entry.finding.lines) do
      if config.is_top(line) then
        table.insert(rows, line.line + entry.offset)
      end
    end
  end
  table.sort(rows)
  return vim.fn.uniq(rows)
end

--- Whether everything that is known is drawn.
function M.is_drawn(buf)
  for _, entry in ipairs(buffers[buf] and buffers[buf].shown or {}) do
    if not entry.drawn then
      return false
    end
  end
  return true
end

return M
