-- Help, health, options, loading: what needs no model, or goes wrong.
-- nvim --headless --clean -l help.lua PLUGIN BINARY WORKSPACE NVIM…

local plugin, binary, workspace = arg[1], arg[2], arg[3]
local nvim = vim.list_slice(arg, 4)
package.path = plugin .. '/test/?.lua;' .. package.path
vim.opt.runtimepath:prepend(plugin)
local check = require('check')
local child = require('child')

local SOON_MS = 20000

-- The help file -------------------------------------------------------------------------------------------------------

-- As it is after each of the documented ways to install it: only its own `doc/tags` can make `:help` work.
local unpack_to = vim.fn.tempname()
local packages = unpack_to .. '/pack/linelens/start'
vim.fn.mkdir(packages, 'p')
assert(vim.uv.fs_symlink(plugin, packages .. '/linelens'))
for how, option in pairs({
  ['in the runtimepath'] = ('vim.opt.runtimepath:append(%q)'):format(plugin),
  ['in pack/start'] = ('vim.opt.packpath:append(%q)'):format(unpack_to),
}) do
  local init = vim.fn.tempname() .. '.lua'
  vim.fn.writefile({ option }, init)
  local script = "pcall(vim.cmd.help, 'linelens'); io.stdout:write(vim.api.nvim_buf_get_name(0)); vim.cmd.qall()"
  local command = { '--headless', '-i', 'NONE', '-u', init, '-c', 'lua ' .. script }
  local result = vim.system(vim.list_extend(vim.list_slice(nvim), command), { text = true }):wait(SOON_MS)
  check.ok((':help linelens works without a step, %s'):format(how),
    vim.endswith(result.stdout, '/doc/linelens.txt'), result)
end

local page = table.concat(vim.fn.readfile(plugin .. '/doc/linelens.txt'), '\n')
local copy = vim.fn.tempname()
vim.fn.mkdir(copy .. '/doc', 'p')
vim.fn.writefile(vim.split(page, '\n'), copy .. '/doc/linelens.txt')
local ok, problem = pcall(vim.cmd.helptags, copy .. '/doc')
check.ok('helptags takes the help file', ok, problem)
vim.opt.runtimepath:append(copy)
check.equal('the tags that come with it are those of the page (:helptags doc makes them anew)',
  vim.fn.readfile(plugin .. '/doc/tags'), vim.fn.readfile(copy .. '/doc/tags'))
local tags = {}
for tag in page:gmatch('|(%S-)|') do
  tags[tag] = true
end
-- Distributions make Neovim's own tags where it is installed, which it may not be.
local has_tags = pcall(vim.cmd.help, 'help')
local dead = vim.tbl_filter(function(tag)
  local ours = tag:lower():find('linelens', 1, true)
  return (ours or has_tags) and not pcall(vim.cmd.help, tag)
end, vim.tbl_keys(tags))
check.equal('every link of it leads somewhere', dead, {})
check.ok(':help linelens opens it', pcall(vim.cmd.help, 'linelens')
  and vim.api.nvim_buf_get_name(0):find('linelens.txt', 1, true))
vim.cmd('silent! only')

local function missing(names, pattern)
  return vim.tbl_filter(function(name)
    return not ('\n' .. page):find(pattern(vim.pesc(name)))
  end, names)
end
local config = require('linelens.config')
check.equal('every option is described', missing(vim.tbl_keys(config.schema), function(name)
  return '\n' .. name .. ' '
end), {})
local described = {}
for name in page:match('5%. Options +%*.-===='):gmatch('\n([%l_]+)  ') do
  table.insert(described, name)
end
table.sort(described)
local names = vim.tbl_keys(config.schema)
table.sort(names)
check.equal('and no other', described, names)
local stale = {}
for name, default in page:match('5%. Options +%*.-===='):gmatch('\n([%l_]+) +([^\n]+)') do
  if vim.inspect(config.schema[name][1], { newline = ' ', indent = '' }):gsub('"', "'") ~= default then
    table.insert(stale, { name, default })
  end
end
check.equal('with its default', stale, {})
local subcommands = vim.tbl_filter(function(name)
  return not vim.tbl_contains({ 'start', 'stop', 'restart' }, name)
end, vim.tbl_keys(require('linelens.commands').subcommands))
check.equal('every subcommand is described', missing(subcommands, function(name)
  return '\n' .. name .. ' '
end), {})
check.ok('also those of the server', page:find('\nstart, stop, restart ') ~= nil)

-- Loading -------------------------------------------------------------------------------------------------------------

local function start(setup)
  return child.start(nvim, plugin, setup)
end

local function noted(editor, text)
  return editor:wait(SOON_MS, [[
    for _, note in ipairs(_G.notes) do
      if note.text:find(..., 1, true) then
        return note.text
      end
    end
  ]], text)
end

local editor = start()
check.equal('without a C file nothing is loaded', editor:lua("return package.loaded['linelens'] ~= nil"), false)
local maps = editor:lua([[
  local found, plugs = {}, {}
  for _, mode in ipairs({ 'n', 'x', 'i', 'o' }) do
    for _, map in ipairs(vim.api.nvim_get_keymap(mode)) do
      if (map.desc or ''):find('linelens') or (map.rhs or ''):find('LineLens') then
        table.insert(map.lhs:find('^<Plug>') and plugs or found, map.lhs)
      end
    end
  end
  return { found, plugs }
]])
check.equal('there are no default keys', maps[1], {})
local dead_maps = editor:lua([[
  local known, dead = require('linelens.commands').subcommands, {}
  for _, map in ipairs(vim.api.nvim_get_keymap('n')) do
    local word = (map.rhs or ''):match('LineLens (%w+)')
    if map.lhs:find('linelens') and not known[word] then
      table.insert(dead, map.lhs)
    end
  end
  return dead
]])
check.equal('every <Plug> map runs a subcommand that there is', dead_maps, {})
check.equal('every <Plug> map is described', missing(maps[2], function(name) return '\n' .. name .. ' ' end), {})
editor:command('edit ' .. workspace .. '/records.c')
check.ok('setup is optional; a server that is not there is a sentence with what to do', noted(editor,
  'the server `linelens` was not found. Install linelens so that it is in your PATH') ~= nil,
  editor:lua('return _G.notes'))
editor:command('edit ' .. workspace .. '/log_message.c')
editor:command('LineLens explain')
vim.wait(300)
check.equal('said once for files', editor:lua('return #_G.notes <= 2'), true)
editor:stop()

editor = start(("vim.env.PATH = %q .. ':' .. vim.env.PATH\n"):format(vim.fs.dirname(binary)))
editor:command('edit ' .. workspace .. '/records.c')
editor:keys('G')
check.ok('a server in the PATH is found without setup',
  editor:wait(SOON_MS, "return require('linelens').statusline():find('p %d')"), editor:lua('return _G.notes'))
editor:command('edit fugitive:///x/records.c')
editor:command('setlocal filetype=c')
vim.wait(100)
check.equal('what is no file has no server', editor:lua('return #vim.lsp.get_clients({ bufnr = 0 })'), 0)
editor:stop()

-- Options -------------------------------------------------------------------------------------------------------------

editor = start([[
  vim.g.linelens = { follow = 'yes' }
  require('linelens').setup({ shadng = false, top = 3, scores = 'some' })
]])
check.ok('a misspelt option is named, with the right one', noted(editor, 'no option `shadng`; did you mean `shading`?'),
  editor:lua('return _G.notes'))
check.ok('a wrong value too, with the right ones',
  noted(editor, '`scores` is "some", but must be one of off, top, all'),
  editor:lua('return _G.notes'))
check.ok('also in vim.g.linelens', noted(editor, 'vim.g.linelens: `follow` is "yes", but must be true or false'))
local options = editor:lua([[
  local options = require('linelens.config').options
  return { options.top, options.scores, options.follow }
]])
check.equal('what was right counts, the rest is the default', options, { 3, 'top', true })
editor:stop()

editor = start(("require('linelens').setup({ cmd = { %q, 'lsp' }, settings = { metod = 'ig' } })"):format(binary))
editor:command('edit ' .. workspace .. '/records.c')
check.ok('a wrong setting is named', noted(editor, 'linelens: settings: `metod`: unknown key'),
  editor:lua('return _G.notes'))
editor:wait(SOON_MS, [[
  local client = require('linelens.client')
  local status = client.status(client.of(0))
  return status and status.quiescent and status.model
]])
vim.wait(300)
check.equal('once, though the server reads it twice', editor:lua('return #_G.notes'), 1)
editor:stop()

-- A server that ends at once ------------------------------------------------------------------------------------------

editor = start("require('linelens').setup({ cmd = { 'sh', '-c', 'exit 3' } })")
editor:command('edit ' .. workspace .. '/records.c')
check.ok('a server that ends at once is reported, and not started again',
  noted(editor, 'ended with exit code 3 before it was ready'), editor:lua('return _G.notes'))
vim.wait(500)
check.equal('in one message', editor:lua('return #_G.notes'), 1)
check.equal('and the status line says so', editor:lua("return require('linelens').statusline()"),
  'linelens: not running, see :LineLens health')
editor:stop()

-- A server without a model --------------------------------------------------------------------------------------------

editor = start(("require('linelens').setup({ cmd = { %q, 'lsp', '--model', '/nonexistent' } })"):format(binary))
editor:command('edit ' .. workspace .. '/records.c')
check.ok('a missing model is reported with its path', noted(editor, '/nonexistent'), editor:lua('return _G.notes'))
check.equal('the status line says where to look',
  editor:wait(SOON_MS, "return require('linelens').statusline():find('error') and require('linelens').statusline()"),
  'linelens: error, see :LineLens health')
vim.wait(300)
check.ok('in one message', editor:lua('return #_G.notes') == 1, editor:lua('return _G.notes'))
editor:stop()

-- What the model did not see ------------------------------------------------------------------------------------------

local long = { 'int sum(const int *values)', '{', '    int total = 0;' }
for number = 1, 200 do
  table.insert(long, ('    total += values[%d] * %d;'):format(number, number))
end
vim.list_extend(long, { '    return total;', '}' })
vim.fn.writefile(long, workspace .. '/long.c')
local options_of_long = "{ cmd = { %q, 'lsp' }, settings = { long = 'truncate', threshold = 0 } }"
editor = start(("require('linelens').setup(" .. options_of_long .. ')'):format(binary))
editor:command('edit ' .. workspace .. '/long.c')
check.ok('unseen lines are dimmed', editor:wait(SOON_MS, [[
  local space = require('linelens.heat').namespaces.unseen
  local marks = vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })
  local last = marks[#marks]
  return #marks > 50 and last[2] >= 202 and last[4].hl_group == 'LinelensUnseen'
    and marks[1][4].virt_text[1][1] == 'not seen by the model' and not last[4].virt_text
]]))
editor:command('normal! G')
editor:command('redraw')
local dim = editor:lua("return vim.api.nvim_get_hl(0, { name = 'LinelensUnseen' }).fg")
local row = editor:lua("return vim.fn.screenpos(0, 200, 1).row - 1")
check.equal('on the screen too', editor:cell(row, 8).foreground, dim)
editor:stop()

-- Health --------------------------------------------------------------------------------------------------------------

local function health(setup)
  local at = start(setup)
  at:command('edit ' .. workspace .. '/records.c')
  at:wait(SOON_MS, [[
    local client = require('linelens.client')
    local status = client.status(client.of(0))
    return status and status.quiescent and status.model or #_G.notes > 0
  ]])
  at:command('LineLens health')
  local text = table.concat(at:lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'), '\n')
  at:stop()
  return text
end

local text = health(("require('linelens').setup({ cmd = { %q, 'lsp' } })"):format(binary))
local function says(what, wanted)
  check.ok(what, text:find(wanted) ~= nil, text)
end
says('health names the server and its version', vim.pesc(binary) .. ': linelens %d')
says('what the doctor found', 'ONNX Runtime %d')
says('the model and its provider', 'model linelens%-default on cpu, method attention:first')
says('the position encoding', 'position encoding: utf%-')
local bad_advice = start("require('linelens').setup({ shadng = 1 })")
bad_advice:command('checkhealth linelens')
local advice = table.concat(bad_advice:lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'), '\n')
bad_advice:stop()
local linked = advice:match(':help |(%S+)|') or advice:match(':help (%S+)')
check.equal('its advice names a page that there is', linked, 'linelens-options')
check.ok('and finds nothing wrong', not text:find('ERROR'), text)
text = health(("require('linelens').setup({ cmd = { %q, 'lsp', '--model', '/nonexistent' } })"):format(binary))
says('health asks the doctor with the flags of the server', 'ERROR.-linelens doctor says:.-/nonexistent')
text = health("require('linelens').setup({ nonsense = 1 })")
says('health repeats a wrong option', 'ERROR.-no option `nonsense`')
says('and says when there is no server', 'ERROR.-`linelens` was not found')

-- Neovim's own configuration of servers -------------------------------------------------------------------------------

if vim.fn.has('nvim-0.11') == 1 then
  editor = start(([[
    require('linelens').setup({ autostart = false, cmd = { %q, 'lsp' } })
    vim.lsp.config('linelens', { settings = { linelens = { threshold = 0 } }, init_options = { threshold = 0 } })
    vim.lsp.enable('linelens')
  ]]):format(binary))
  editor:command('edit ' .. workspace .. '/records.c')
  check.ok('vim.lsp.enable starts it, vim.lsp.config counts', editor:wait(SOON_MS, [[
    return #vim.api.nvim_buf_get_extmarks(0, require('linelens.heat').namespaces.heat, 0, -1, {}) > 30
  ]]), editor:lua('return _G.notes'))
  editor:stop()
end

check.finish('Help and health')
