-- The plugin with the server, in a Neovim with a screen.
-- nvim --headless --clean -l plugin.lua PLUGIN BINARY WORKSPACE NVIM…

local plugin, binary, workspace = arg[1], arg[2], arg[3]
local nvim = vim.list_slice(arg, 4)
package.path = plugin .. '/test/?.lua;' .. package.path
local check = require('check')
local child = require('child')

local READY_MS, SOON_MS = 60000, 15000

local function setup(options)
  options = vim.tbl_extend('force', { cmd = { binary, 'lsp' }, debounce_ms = 30 }, options or {})
  return ("require('linelens').setup(%s)\n"):format(vim.inspect(options, { newline = ' ', indent = '' }))
end

-- Every function is above 0, so nothing here depends on what the detector thinks of the examples.
local FLAGGED = { settings = { threshold = 0, analyze = 'file', debounceMs = 30 } }

-- What is drawn, in Lua of the child: rows of the marks of a kind.
local HELPERS = [[
  _G.rows = function(kind)
    local space, found = require('linelens.heat').namespaces[kind], {}
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {})) do
      table.insert(found, mark[2])
    end
    return found
  end
  _G.definition = function(name)
    for number, text in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
      if text:find('%f[%w_]' .. name .. '%(') and not text:find(';') and not text:find('^%s') then
        return number - 1
      end
    end
  end
  _G.shaded = function(name)
    local first = definition(name)
    for _, row in ipairs(rows('heat')) do
      if first and row >= first and row <= first + 3 then
        return true
      end
    end
    return false
  end
  _G.noted = function(text)
    for _, note in ipairs(_G.notes) do
      if note.text:find(text, 1, true) then
        return note.text
      end
    end
    return false
  end
  _G.quiet = function()
    local client = require('linelens.client')
    local status = client.status(client.of(0))
    return status and status.quiescent and require('linelens.heat').is_drawn(vim.api.nvim_get_current_buf())
  end
]]

local function open(options, file)
  local editor = child.start(nvim, plugin, setup(options) .. HELPERS)
  editor:command('edit ' .. vim.fn.fnameescape(workspace .. '/' .. file))
  return editor
end

local function all_notes(editor)
  return editor:lua('return _G.notes')
end

-- Shading -------------------------------------------------------------------------------------------------------------

local editor = open(FLAGGED, 'records.c')
if not check.ok('opening a C file starts the server and shades its lines',
  editor:wait(READY_MS, "return shaded('read_record') and shaded('free_record')"), all_notes(editor))
then
  check.finish('Plugin')
end
editor:wait(SOON_MS, 'return quiet()')
local first = editor:lua("return definition('read_record')")
editor:call('nvim_win_set_cursor', 0, { first + 1, 0 })
editor:command('normal! zt')
editor:command('redraw')

local function group_color(step)
  return editor:lua("return vim.api.nvim_get_hl(0, { name = 'LinelensHeat' .. ... }).bg", step)
end

--- The step of each screen line of read_record, by the marks and by the colours of the cells.
local function steps_of_screen()
  return editor:lua([[
    local first, found = ..., {}
    local space = require('linelens.heat').namespaces.heat
    local from, to = { first, 0 }, { first + 28, 0 }
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, from, to, { details = true })) do
      found[tostring(mark[2] - first)] = tonumber(mark[4].line_hl_group:match('%d+$'))
    end
    return found
  ]], first)
end

local marks = steps_of_screen()
local wrong, steps = {}, {}
for row = 0, 28 do
  local step = marks[tostring(row)]
  for _, column in ipairs({ 3, 60, 99 }) do
    local cell = editor:cell(row, column)
    -- A line under the cursor has another background.
    if row > 0 and cell.background ~= (step and group_color(step) or nil) then
      table.insert(wrong, { row = row, column = column, step = step, background = cell.background })
    end
  end
  steps[step or 0] = true
end
check.ok('whole lines are shaded on the screen, in the colours of their steps', #wrong == 0, wrong)
check.ok('the strongest line has the last step, and there are several steps', steps[8] and #vim.tbl_keys(steps) >= 3,
  vim.tbl_keys(steps))

local scores = {}
for row = 0, 28 do
  local bar, number = editor:row(row):match('([▁▂▃▄▅▆▇█]+) (%d%.%d%d)')
  if bar then
    table.insert(scores, number)
  end
end
table.sort(scores)
check.ok('the top five lines show their scores', #scores == 5 and scores[5] == '1.00', scores)

for _, background in ipairs({ 'light', 'dark' }) do
  editor:command('set background=' .. background)
  editor:wait(SOON_MS, "return vim.o.background == ...", background)
  editor:command('redraw!')
  local bad = {}
  for row = 1, 28 do
    local step = marks[tostring(row)]
    local cell = editor:cell(row, 60)
    if cell.background ~= (step and group_color(step) or nil) then
      table.insert(bad, { row = row, step = step, background = cell.background })
    end
  end
  local is_light = (group_color(2) or 0) > 0x808080
  check.ok('the shades follow a ' .. background .. ' background', #bad == 0 and is_light == (background == 'light'),
    { bad = bad, group = group_color(2) })
end

-- Toggling ------------------------------------------------------------------------------------------------------------

local before = editor:lua("return rows('heat')")
editor:command('LineLens toggle')
editor:command('redraw')
check.equal('toggle takes shades away', editor:lua("return rows('heat')"), {})
check.ok('says so', editor:wait(SOON_MS, "return noted('nothing is shown')"), all_notes(editor))
check.equal('and scores', editor:lua("return rows('score')"), {})
check.equal('no cell keeps a shade', editor:cell(6, 60).background, nil)
editor:command('LineLens toggle')
editor:wait(SOON_MS, 'return quiet()')
check.equal('toggle brings the same back', editor:lua("return rows('heat')"), before)
editor:command('LineLens toggle scores')
check.ok('scores can be switched off alone', editor:wait(SOON_MS, "return quiet() and #rows('score') == 0")
  and #editor:lua("return rows('heat')") == #before)
editor:command('LineLens toggle scores')
check.ok('and on again', editor:wait(SOON_MS, "return quiet() and #rows('score') > 0"))
check.ok('each with what is shown now', editor:wait(SOON_MS, [[
  return noted('shown: shading, signs, unseen') and noted('shown: shading, scores, signs, unseen')
]]), all_notes(editor))

-- While the server's own scores are shown, the plugin's are not.
if editor:lua("return require('linelens.client').of(0).server_capabilities.inlayHintProvider ~= nil") then
  for _, is_on in ipairs({ true, false }) do
    editor:lua('vim.lsp.inlay_hint.enable(..., { bufnr = 0 })', is_on)
    local began = vim.uv.hrtime()
    local switched = editor:wait(SOON_MS, "return quiet() and (#rows('score') == 0) == ...", is_on)
    local what = is_on and 'scores go when inlay hints come' or 'scores come when inlay hints go'
    check.ok(what, switched, editor:lua("return rows('score')"))
    check.ok('at once', vim.uv.hrtime() - began < 2e9, (vim.uv.hrtime() - began) / 1e6)
  end
end

-- Edits ---------------------------------------------------------------------------------------------------------------

editor:call('nvim_buf_set_lines', 0, 0, 0, false, { '/* « a line above everything » */' })
check.equal('an edit above moves the shades along at once', editor:lua("return rows('heat')"),
  vim.tbl_map(function(row) return row + 1 end, before))
editor:wait(SOON_MS, 'return quiet()')

-- The server's answer for the old text is kept back, so that only the edit itself counts.
editor:lua([[
  local client = require('linelens.client').of(0)
  _G.real_handler = client.handlers['linelens/relevance']
  client.handlers['linelens/relevance'] = function(...) _G.kept = { ... } end
]])
first = editor:lua("return definition('read_record')")
editor:call('nvim_win_set_cursor', 0, { first + 6, 0 })
editor:keys('A /* x */<Esc>')
editor:wait(SOON_MS, "return vim.api.nvim_get_current_line():find('/* x */', 1, true)")
check.equal('an edit inside a function takes its shades away at once',
  editor:lua("return shaded('read_record')"), false)
check.ok('other functions keep theirs', editor:lua("return shaded('free_record')"))
editor:wait(SOON_MS, 'return _G.kept ~= nil')
check.equal('a result for an older version is not shown', editor:lua([[
  local result = vim.deepcopy(_G.kept[2])
  result.textDocument.version = result.textDocument.version - 1
  _G.real_handler(nil, result, _G.kept[3])
  vim.wait(100)
  return shaded('read_record')
]]), false)
editor:lua([[
  local client = require('linelens.client').of(0)
  client.handlers['linelens/relevance'] = _G.real_handler
  _G.real_handler(unpack(_G.kept))
]])
check.ok('the result for the present one is', editor:wait(SOON_MS, "return shaded('read_record')"))
editor:keys('u')
check.ok('after undo the shades come back', editor:wait(SOON_MS, "return quiet() and shaded('read_record')"))

-- Methods -------------------------------------------------------------------------------------------------------------

check.ok('the status line says method, provider and verdict',
  editor:wait(SOON_MS, "return require('linelens').statusline():find('attention:first · cpu · p %d%.%d%d flagged')"),
  editor:lua("return require('linelens').statusline()"))
local by_attention = steps_of_screen()
editor:command('LineLens method occlusion')
check.ok('the method can be changed', editor:wait(SOON_MS, "return noted('explaining by occlusion')"),
  all_notes(editor))
check.ok('the status line says so',
  editor:wait(SOON_MS, "return require('linelens').statusline():find('occlusion')"),
  editor:lua("return require('linelens').statusline()"))
editor:wait(SOON_MS, "return quiet() and shaded('read_record')")
check.ok('and the shades are others', not vim.deep_equal(by_attention, steps_of_screen()))
editor:command('LineLens method attention:first')
editor:wait(SOON_MS, "return noted('explaining by attention:first')")
check.ok('changing back brings the first ones back', child.until_true(SOON_MS, function()
  return vim.deep_equal(by_attention, steps_of_screen())
end), { by_attention, steps_of_screen() })
editor:command('LineLens method nonsense')
check.ok('an unknown method is refused in a sentence', editor:wait(SOON_MS, "return noted('nonsense')"),
  all_notes(editor))
editor:lua('_G.notes = {}')
editor:command('LineLens explain gradient-x-input')
check.ok('explain says what it found', editor:wait(SOON_MS, "return noted('read_record: p ')"), all_notes(editor))
check.ok('by the method that was asked for', editor:lua("return noted('gradient-x-input')"), all_notes(editor))
check.ok('and shades by it', child.until_true(SOON_MS, function()
  return not vim.deep_equal(by_attention, steps_of_screen())
end))
editor:command('LineLens explain')
check.ok('explain without a method goes back', child.until_true(SOON_MS, function()
  return vim.deep_equal(by_attention, steps_of_screen())
end))

-- Moving, comparing, labelling ----------------------------------------------------------------------------------------

first = editor:lua("return definition('read_record')")
editor:call('nvim_win_set_cursor', 0, { first + 1, 0 })
local visited = {}
for _ = 1, 5 do
  editor:command('LineLens next')
  table.insert(visited, editor:call('nvim_win_get_cursor', 0)[1] - 1)
end
check.equal('next goes through the relevant lines in order', visited,
  vim.list_slice(editor:lua([[
    local first = ...
    local rows = require('linelens.heat').top_rows(vim.api.nvim_get_current_buf())
    return vim.tbl_filter(function(row) return row > first end, rows)
  ]], first), 1, 5))
editor:command('LineLens prev')
check.equal('prev goes back', editor:call('nvim_win_get_cursor', 0)[1] - 1, visited[4])
editor:keys(':nmap ]l <Plug>(linelens-next)<CR>]l')
check.ok('a <Plug> map does the same', editor:wait(SOON_MS, 'return vim.fn.line(".") - 1 == ...', visited[5]))

editor:call('nvim_win_set_cursor', 0, { first + 1, 5 })
editor:command('LineLens compare')
check.ok('compare opens a window with all methods', editor:wait(READY_MS, [[
  local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
  return vim.bo.filetype == 'linelens' and not vim.bo.modifiable
    and text:find('occlusion') and text:find('attention:last')
]]), editor:lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'))
editor:keys('q')
check.ok('which q closes', editor:wait(SOON_MS, "return vim.bo.filetype == 'c'"))

local function git(...)
  local command = { 'git', '-C', workspace, '-c', 'user.name=t', '-c', 'user.email=t@example.com', ... }
  return vim.system(command):wait().code == 0
end
check.ok('(git keeps the workspace)', git('init', '-q') and git('add', '.') and git('commit', '-q', '-m', 'first'))
editor:command('LineLens pair')
check.ok('a function in no pair is said to be compared with HEAD', editor:wait(READY_MS, [[
  return vim.bo.filetype == 'linelens' and noted('read_record is in no pair; comparing with HEAD (')
]]), all_notes(editor))
editor:keys('q')
editor:wait(SOON_MS, "return vim.bo.filetype == 'c'")

-- Code actions of Neovim's own menu, whose results Neovim does not show.
editor:lua([[
  _G.act = function(title)
    vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.title:find(title, 1, true) end })
  end
]])
editor:lua("act('compare methods')")
check.ok('a code action shows its result, too', editor:wait(READY_MS, "return vim.bo.filetype == 'linelens'"))
editor:keys('q')
editor:wait(SOON_MS, "return vim.bo.filetype == 'c'")
editor:lua([[
  vim.ui.input = function(options, done) _G.asked = options.prompt done('seen in a menu') end
  act('add a note')
]])
check.ok('and asks for what is missing', editor:wait(SOON_MS, "return noted('note')") and editor:lua('return _G.asked'),
  all_notes(editor))

local annotations = workspace .. '/.linelens/annotations.jsonl'
local function records()
  local found = {}
  for _, line in ipairs(vim.uv.fs_stat(annotations) and vim.fn.readfile(annotations) or {}) do
    local record = vim.json.decode(line)
    if record.label then
      found[record['function']] = record
    end
  end
  return found
end
editor:call('nvim_win_set_cursor', 0, { first + 13, 8 })
editor:command('LineLens mark')
check.equal('which is written', records().read_record.note, 'seen in a menu')
check.ok('mark writes the annotation file', child.until_true(SOON_MS, function()
  return #(records().read_record.lines or {}) == 1
end), { records(), all_notes(editor) })
check.equal('with the line', records().read_record.lines[1].text,
  '        memcpy(record->name, stream->data + stream->position, length);')
check.ok('and a sign appears beside it',
  editor:wait(SOON_MS, "return vim.deep_equal(rows('truth'), { ... })", first + 12),
  editor:lua("return rows('truth')"))
editor:command('redraw')
local screen_row = editor:lua("return vim.fn.screenpos(0, ... + 1, 1).row - 1", first + 12)
check.ok('on the screen too', editor:row(screen_row):find('^●') ~= nil, editor:row(screen_row))
editor:command('LineLens mark')
check.ok('mark again takes it back', editor:wait(SOON_MS, "return #rows('truth') == 0"),
  editor:lua("return rows('truth')"))
editor:call('nvim_win_set_cursor', 0, { editor:lua("return definition('free_record')") + 1, 5 })
editor:command('LineLens label vulnerable')
check.ok('label writes the label', child.until_true(SOON_MS, function()
  local record = records().free_record
  return record and record.label == 'vulnerable'
end), { records(), all_notes(editor) })
editor:command('LineLens note frees twice')
check.ok('note writes the note', child.until_true(SOON_MS, function()
  local record = records().free_record
  return record and record.note == 'frees twice'
end), { records(), all_notes(editor) })

-- What newer servers offer --------------------------------------------------------------------------------------------

local function offers(name)
  local has = editor:lua([[
    local client = require('linelens.client')
    return client.has_command(client.of(0), ...)
  ]], name)
  if not has then
    check.say('        skipped: this server does not offer ' .. name)
  end
  return has
end

editor:lua('_G.notes = {}')
editor:call('nvim_win_set_cursor', 0, { editor:lua("return definition('read_record')") + 1, 5 })
if editor:lua("return require('linelens.client').of(0).server_capabilities.inlayHintProvider ~= nil") then
  editor:lua([[
    local client = require('linelens.client').of(0)
    local request = client.request
    client.request = function(...)
      for _, value in ipairs({ ... }) do
        if type(value) == 'table' and value.range then
          _G.told = { value.range.start.line, value.range['end'].line }
        end
      end
      return request(...)
    end
  ]])
  editor:keys('gg')
  editor:keys('G')
  check.ok('the server is told what is visible', editor:wait(SOON_MS, [[
    return vim.deep_equal(_G.told, { vim.fn.line('w0') - 1, vim.fn.line('w$') - 1 })
  ]]), editor:lua('return _G.told'))
  editor:call('nvim_win_set_cursor', 0, { editor:lua("return definition('read_record')") + 1, 5 })
else
  check.say('        skipped: this server offers no inlay hints')
end
if offers('linelens.analyzeFile') then
  editor:command('LineLens analyze')
  check.ok('analyze puts the flagged functions into the quickfix list', editor:wait(SOON_MS, [[
    local items = vim.fn.getqflist()
    return #items == 4 and items[1].lnum > 1 and items[1].text:find('get_u16: p %d')
      and noted(' functions in 1 file: 4 flagged')
  ]]), { editor:lua('return vim.fn.getqflist()'), all_notes(editor) })
end
if offers('linelens.analyzeWorkspace') then
  editor:command('LineLens analyze workspace')
  check.ok('or those of the workspace', editor:wait(READY_MS, 'return #vim.fn.getqflist() > 4'),
    { editor:lua('return vim.fn.getqflist()'), all_notes(editor) })
end
if offers('linelens.compareModels') then
  editor:lua('_G.notes = {}')
  editor:command('LineLens compare models')
  check.ok('without another model a comparison says what to do', editor:wait(SOON_MS, "return noted('model')"),
    all_notes(editor))
end
if offers('linelens.setModel') then
  check.equal('models are completed', editor:lua("return vim.fn.getcompletion('LineLens model ', 'cmdline')"),
    { 'linelens-default' })
  editor:command('LineLens model linelens-default')
  check.ok('a model can be chosen', editor:wait(READY_MS, "return noted('the model is linelens-default')"),
    all_notes(editor))
  editor:wait(READY_MS, 'return quiet()')
end
if offers('linelens.exportReport') then
  for _, format in ipairs({ 'html', 'sarif' }) do
    editor:command(('LineLens report %s found.%s'):format(format, format))
    check.ok('a report is written as ' .. format, editor:wait(READY_MS, "return noted(...)", 'found.' .. format)
      and vim.uv.fs_stat(workspace .. '/found.' .. format) ~= nil, all_notes(editor))
  end
end
if offers('linelens.ignore') then
  editor:command('LineLens ignore only an example')
  check.ok('an ignored function is flagged no more', editor:wait(SOON_MS, [[
    for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
      if diagnostic.lnum == definition('read_record') then
        return false
      end
    end
    return #vim.diagnostic.get(0) > 0
  ]]), all_notes(editor))
  editor:lua('vim.ui.input = function(_, done) done("") end')
  editor:command('LineLens ignore')
  check.ok('until that is taken back', editor:wait(SOON_MS, "return #vim.diagnostic.get(0) == 4"), all_notes(editor))
end

-- Outside of functions, and what the server does not offer ------------------------------------------------------------

editor:lua('_G.notes = {}')
editor:call('nvim_win_set_cursor', 0, { 1, 0 })
editor:command('LineLens explain')
check.ok('outside of functions explain says so', editor:wait(SOON_MS, "return noted('in no function')"),
  all_notes(editor))
editor:lua([[
  local provider = require('linelens.client').of(0).server_capabilities.executeCommandProvider
  provider.commands = vim.tbl_filter(function(name)
    return name ~= 'linelens.exportReport' and name ~= 'linelens.ignore'
  end, provider.commands)
]])
editor:command('LineLens report')
check.ok('what an older server lacks is said clearly',
  editor:wait(SOON_MS, "return noted('does not offer `linelens.exportReport`')"), all_notes(editor))
editor:command('LineLens ignore tested by hand')
check.ok('for every command', editor:wait(SOON_MS, "return noted('does not offer `linelens.ignore`')"),
  all_notes(editor))
editor:command('LineLens nonsense')
check.ok('an unknown subcommand is named, with those there are',
  editor:wait(SOON_MS, "local text = noted('no :LineLens nonsense') return text and text:find('explain', 1, true)"),
  all_notes(editor))
check.equal('subcommands are completed', editor:lua("return vim.fn.getcompletion('LineLens re', 'cmdline')"),
  { 'reload', 'report', 'restart' })
check.equal('labels too', editor:lua("return vim.fn.getcompletion('LineLens label b', 'cmdline')"), { 'benign' })
check.ok('and methods', vim.tbl_contains(editor:lua("return vim.fn.getcompletion('LineLens method ', 'cmdline')"),
  'occlusion'))

-- Closing, stopping, a server that dies -------------------------------------------------------------------------------

editor:command('edit!')
check.ok('after the file was read again the shades come back',
  editor:wait(SOON_MS, "return quiet() and shaded('read_record') and shaded('free_record')"))
editor:lua('_G.notes = {}')
local pid = editor:lua([[
  for _, id in ipairs(vim.api.nvim_get_proc_children(vim.fn.getpid())) do
    local process = vim.api.nvim_get_proc(id)
    if process and process.name:find('linelens') then
      return id
    end
  end
]])
check.ok('the server is a child of Neovim', type(pid) == 'number', pid)
local generation = editor:lua("return require('linelens.client').of(0).id")
vim.uv.kill(pid, 'sigkill')
check.ok('a killed server is reported with its signal', editor:wait(SOON_MS, "return noted('killed by signal 9')"),
  all_notes(editor))
check.ok('once, and with what happens next',
  #all_notes(editor) == 1 and editor:lua("return noted('being started again')"), all_notes(editor))
check.ok('and started again', editor:wait(READY_MS, [[
  local client = require('linelens.client').of(0)
  return client and client.id ~= ... and quiet() and shaded('free_record')
]], generation), all_notes(editor))
editor:command('LineLens stop')
check.equal('after stop nothing stays shaded', editor:lua("return rows('heat')"), {})
-- What was asked before it heard of that is refused, as Neovim's own requests may be.
editor:lua([[
  for _, client in ipairs(vim.lsp.get_clients({ name = 'linelens' })) do
    for _, method in ipairs({ 'textDocument/codeLens', 'textDocument/inlayHint' }) do
      local refused = { code = -32600, message = 'Invalid request' }
      client.handlers[method](refused, nil, { client_id = client.id, method = method, bufnr = 0 }, {})
    end
  end
]])
check.ok('and nothing is reported', editor:wait(READY_MS, "return #vim.lsp.get_clients() == 0")
  and #all_notes(editor) == 1, all_notes(editor))
check.equal('the status line is empty', editor:lua("return require('linelens').statusline()"), '')
editor:command('LineLens explain')
check.ok('a command says how to start the server', editor:wait(SOON_MS, "return noted(':LineLens start')"),
  all_notes(editor))
editor:command('LineLens start')
check.ok('which it does', editor:wait(READY_MS, "return quiet() and shaded('free_record')"))
editor:command('LineLens restart')
check.ok('restart works too', editor:wait(READY_MS, "return not require('linelens.client').of(0)")
  ~= nil and editor:wait(READY_MS, "return quiet() and shaded('free_record')"), all_notes(editor))
editor:lua("_G.buffer = vim.api.nvim_get_current_buf()")
editor:command('bdelete!')
check.equal('a closed file leaves nothing', editor:lua([[
  local left = 0
  for _, space in pairs(require('linelens.heat').namespaces) do
    if vim.api.nvim_buf_is_valid(_G.buffer) then
      left = left + #vim.api.nvim_buf_get_extmarks(_G.buffer, space, 0, -1, {})
    end
  end
  return left
]]), 0)
editor:stop()

-- In a function that is not shaded, neither flagged nor under the cursor, ground truth is signed all the same.
editor = open({ follow = false, settings = { threshold = 0.99, analyze = 'file', debounceMs = 30 } }, 'records.c')
editor:wait(READY_MS, 'return quiet()')
local flaw = editor:lua("return definition('read_record')") + 5
editor:call('nvim_win_set_cursor', 0, { flaw + 1, 5 })
editor:command('LineLens mark')
check.ok('a line is signed', editor:wait(SOON_MS, "return #rows('truth') + #rows('others') > 0"), all_notes(editor))
editor:call('nvim_win_set_cursor', 0, { 1, 0 })
editor:command('LineLens restart')
check.ok('also where nothing is shaded', editor:wait(READY_MS,
  "return quiet() and #rows('heat') == 0 and vim.deep_equal(rows('others'), { ... })", flaw),
  editor:lua("return { rows('heat'), rows('truth'), rows('others') }"))
editor:lua("vim.api.nvim_buf_set_lines(0, 0, 0, true, { '' })")
check.equal('the sign goes with its line', editor:lua("return rows('others')"), { flaw + 1 })
editor:command('LineLens toggle signs')
check.ok('and away with a toggle', editor:wait(SOON_MS, "return #rows('others') == 0"),
  editor:lua("return rows('others')"))
editor:stop()
check.finish('Plugin')
