-- Beside another server of another position encoding, on lines with characters beyond ASCII.
-- nvim --headless --clean -l encodings.lua PLUGIN BINARY WORKSPACE NVIM…

local plugin, binary, workspace = arg[1], arg[2], arg[3]
local nvim = vim.list_slice(arg, 4)
package.path = plugin .. '/test/?.lua;' .. package.path
local check = require('check')
local child = require('child')

local SOON_MS = 20000

-- Two functions on one line: only the column tells them apart, and what stands before them has another length in each
-- encoding.
vim.fn.writefile({
  '/* 😀😀ééé */ static int one(int a) { return a; } static int two(int b) { return b + 1; }',
  '',
  'int three(int c)',
  '{',
  '    /* é */ return one(c) + two(c);',
  '}',
}, workspace .. '/columns.c')

-- A server that knows nothing but its encoding.
local OTHER = [[
  _G.other = function(encoding)
    return function(dispatchers)
      local closing = false
      return {
        request = function(method, _, callback)
          local answer = method == 'initialize'
              and { capabilities = { positionEncoding = encoding, hoverProvider = true, textDocumentSync = 2 } }
            or vim.NIL
          vim.schedule(function() callback(nil, answer) end)
          return true, 1
        end,
        notify = function(method)
          if method == 'exit' then
            closing = true
            dispatchers.on_exit(0, 0)
          end
          return true
        end,
        is_closing = function() return closing end,
        terminate = function() closing = true end,
      }
    end
  end
]]

local function run(ours, theirs)
  local title = ('linelens %s, the other %s: '):format(ours, theirs)
  -- What Neovim offers first is taken.
  local editor = child.start(nvim, plugin, ([[
    local make = vim.lsp.protocol.make_client_capabilities
    vim.lsp.protocol.make_client_capabilities = function()
      local capabilities = make()
      capabilities.general.positionEncodings = { %q }
      return capabilities
    end
    require('linelens').setup({ cmd = { %q, 'lsp' }, debounce_ms = 20, settings = { threshold = 0 } })
  ]]):format(ours, binary) .. OTHER)
  editor:command('edit ' .. workspace .. '/columns.c')
  -- The other one is first in no list, and last in none.
  editor:lua("vim.lsp.start({ name = 'other', cmd = other(...), root_dir = '/' })", theirs)
  check.ok(title .. 'both are attached, each with its encoding', editor:wait(SOON_MS, [[
    local ours, theirs = ...
    local found = {}
    for _, client in ipairs(vim.lsp.get_clients({ bufnr = 0 })) do
      found[client.name] = client.offset_encoding
    end
    return found.linelens == ours and found.other == theirs
  ]], ours, theirs))
  editor:wait(SOON_MS, "return #vim.diagnostic.get(0) == 3")
  local marked = editor:lua([[
    local texts = {}
    for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
      local line = vim.api.nvim_buf_get_lines(0, diagnostic.lnum, diagnostic.lnum + 1, false)[1]
      table.insert(texts, line:sub(diagnostic.col + 1, diagnostic.end_col))
    end
    table.sort(texts)
    return texts
  ]])
  check.equal(title .. 'diagnostics are on the names', marked, { 'one', 'three', 'two' })

  local function at(text, wanted)
    editor:lua([[
      _G.notes = {}
      vim.fn.search(..., 'cw')
    ]], text)
    editor:command('LineLens explain')
    local note = editor:wait(SOON_MS, 'return _G.notes[1] and _G.notes[1].text')
    check.ok(title .. 'the cursor at the start of ' .. text .. ' is in ' .. wanted,
      note ~= nil and note:find('linelens: ' .. wanted .. ': p ', 1, true) ~= nil, note)
    check.ok(title .. 'so says the status line', editor:wait(SOON_MS, [[
      local finding = require('linelens.cursor').findings[vim.api.nvim_get_current_buf()]
      return finding and finding.finding and finding.finding['function'].name == ...
    ]], wanted))
  end
  at([[\<static int one]], 'one')
  at([[\<static int two]], 'two')
  at([[return one(c)]], 'three')

  editor:lua("vim.fn.search([[\\<static int two]], 'cw')")
  editor:command('LineLens label vulnerable')
  local file = workspace .. '/.linelens/annotations.jsonl'
  local found
  child.until_true(SOON_MS, function()
    found = nil
    for _, line in ipairs(vim.uv.fs_stat(file) and vim.fn.readfile(file) or {}) do
      found = vim.json.decode(line)['function'] or found
    end
    return found
  end)
  check.equal(title .. 'a label goes to the function under the cursor', found, 'two')
  vim.fn.delete(file)
  editor:lua([[
    for _, client in ipairs(vim.lsp.get_clients({ name = 'other' })) do
      vim.lsp.stop_client(client.id)
    end
  ]])
  check.ok(title .. 'the end of the other one takes nothing of ours', editor:wait(SOON_MS, [[
    local space = require('linelens.heat').namespaces.heat
    return #vim.lsp.get_clients({ bufnr = 0 }) == 1 and #vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {}) > 0
  ]]))
  editor:stop()
end

run('utf-8', 'utf-16')
run('utf-16', 'utf-8')
run('utf-32', 'utf-16')
check.finish('Encodings')
