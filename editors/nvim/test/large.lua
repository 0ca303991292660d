-- A file of 10,000 lines and 300 functions: what the plugin costs the editor, from opening to closing.
-- nvim --headless --clean -l large.lua PLUGIN BINARY WORKSPACE NVIM…

local plugin, binary, workspace = arg[1], arg[2], arg[3]
local nvim = vim.list_slice(arg, 4)
package.path = plugin .. '/test/?.lua;' .. package.path
local check = require('check')
local child = require('child')

local FUNCTIONS, LINES, LONGEST_MS = 300, 10000, 50
local READY_MS = 120000

local lines = { '#include <string.h>', '' }
for number = 1, FUNCTIONS do
  table.insert(lines, ('static int step_%d(char *to, const char *from, int length)'):format(number))
  table.insert(lines, '{')
  table.insert(lines, '    int total = 0;')
  for line = 1, 12 do
    table.insert(lines, ('    if (length > %d) {'):format(line * number % 97))
    table.insert(lines, ('        memcpy(to + %d, from, length - %d); total += to[%d];'):format(line, line, line))
  end
  vim.list_extend(lines, { '    }', '    }', '    }' })
  lines[#lines - 2], lines[#lines - 1], lines[#lines] = '    ' .. ('}'):rep(12), '    return total;', '}'
  table.insert(lines, '')
end
while #lines < LINES do
  table.insert(lines, ('/* line %d */'):format(#lines + 1))
end
vim.fn.writefile(lines, workspace .. '/large.c')

-- A clock in the child: how long its loop was away, at most, since it was last asked.
local CLOCK = [[
  local timer, last = vim.uv.new_timer(), vim.uv.hrtime()
  _G.away = 0
  timer:start(2, 2, function()
    local now = vim.uv.hrtime()
    _G.away, last = math.max(_G.away, (now - last) / 1e6), now
  end)
  _G.ask = function()
    local away = _G.away
    _G.away = 0
    return away
  end
]]

local function scenario(setup, with_plugin)
  local editor = child.start(nvim, plugin, setup .. CLOCK)
  local times = {}
  local function done(what)
    times[what] = editor:lua('return _G.ask()')
  end
  editor:lua('return _G.ask()')
  editor:command('edit ' .. workspace .. '/large.c')
  if with_plugin then
    local all = editor:wait(READY_MS, [[
      local client, heat = require('linelens.client'), require('linelens.heat')
      local status, buf = client.status(client.of(0)), vim.api.nvim_get_current_buf()
      local functions = {}
      if status and status.quiescent and heat.is_drawn(buf) then
        for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, heat.namespaces.heat, 0, -1, {})) do
          local finding = heat.at(buf, mark[2])
          functions[finding['function'].name] = true
        end
      end
      return vim.tbl_count(functions) == ... and #vim.diagnostic.get(0) >= ...
    ]], FUNCTIONS)
    check.ok(('all %d functions are shaded'):format(FUNCTIONS), all, editor:lua([[
      local space = require('linelens.heat').namespaces.heat
      return { _G.notes, #vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {}) }
    ]]))
  else
    vim.wait(500)
  end
  done('opening')
  for _ = 1, 40 do
    editor:keys('<C-f>')
    vim.wait(8)
  end
  editor:keys('gg')
  editor:lua('return 1')
  done('scrolling')
  editor:keys('5000Go')
  for number = 1, 60 do
    editor:keys(('x%d = 1; '):format(number))
    vim.wait(8)
  end
  editor:keys('<Esc>')
  vim.wait(600)
  editor:lua('return 1')
  done('typing')
  editor:lua('vim.api.nvim_buf_set_lines(0, 0, 0, false, vim.fn["repeat"]({ "/* above */" }, 10000))')
  editor:keys('u')
  editor:wait(READY_MS, 'return vim.api.nvim_buf_line_count(0) < 15000')
  done('inserting and removing 10,000 lines above')
  if with_plugin then
    editor:command('LineLens toggle')
    editor:command('LineLens toggle')
    editor:wait(READY_MS, "return require('linelens.heat').is_drawn(vim.api.nvim_get_current_buf())")
    done('toggling twice')
  end
  editor:command('bwipeout!')
  editor:lua('return 1')
  done('closing')
  local longest = with_plugin and editor:lua("return require('linelens.util').longest")
  editor:stop()
  return times, longest
end

local function setup(enabled)
  return ([[
    require('linelens').setup({ cmd = { %q, 'lsp' }, autostart = %s, settings = { threshold = 0, analyze = 'file' } })
  ]]):format(binary, enabled)
end

local plain = scenario(setup('false'), false)
local times, longest = scenario(setup('true'), true)
for _, what in ipairs({ 'opening', 'scrolling', 'typing', 'inserting and removing 10,000 lines above',
  'toggling twice', 'closing' }) do
  check.say(('        %-42s the loop was away for at most %4.0f ms; without linelens %4.0f ms'):format(
    what, times[what], plain[what] or 0))
end
check.say(('        the longest callback of the plugin: %.1f ms, %.1f ms of them on the processor (%s)'):format(
  longest.ms, longest.cpu_ms, longest.what))
-- The machine may do something else meanwhile.
check.ok(('no callback of the plugin keeps the editor for more than %d ms'):format(LONGEST_MS),
  longest.cpu_ms <= LONGEST_MS, longest)
check.finish('Large file')
