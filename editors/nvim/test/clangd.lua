-- Beside clangd, each with its own diagnostics, hovers and position encoding.
-- nvim --headless --clean -l clangd.lua PLUGIN BINARY WORKSPACE NVIM…, with the path of clangd in CLANGD

local plugin, binary, workspace = arg[1], arg[2], arg[3]
local nvim = vim.list_slice(arg, 4)
package.path = plugin .. '/test/?.lua;' .. package.path
local check = require('check')
local child = require('child')

local SOON_MS = 30000
local clangd = assert(vim.env.CLANGD, 'CLANGD names clangd')

-- What stands before the names has another length in each encoding.
vim.fn.writefile({
  '/* 😀😀ééé */ int twice(int number) { return number * undeclared; }',
  '',
  'int three(int number)',
  '{',
  '    /* é */ return twice(number) + "😀é"[0] + unknown;',
  '}',
}, workspace .. '/beside.c')

--- Starts both; `ours` and `theirs` are the encodings that each is offered, `nil`: what Neovim offers.
local function run(ours, theirs)
  local title = ('linelens %s, clangd %s: '):format(ours or 'default', theirs or 'default')
  local editor = child.start(nvim, plugin, ([[
    local make = vim.lsp.protocol.make_client_capabilities
    _G.offering = function(encoding)
      local capabilities = make()
      if encoding then
        capabilities.general.positionEncodings = { encoding }
      end
      return capabilities
    end
    vim.lsp.protocol.make_client_capabilities = function() return offering(%s) end
    require('linelens').setup({ cmd = { %q, 'lsp' }, debounce_ms = 20, settings = { threshold = 0 } })
  ]]):format(ours and ('%q'):format(ours) or 'nil', binary))
  editor:command('edit ' .. workspace .. '/beside.c')
  editor:lua([[
    local clangd, encoding = ...
    vim.lsp.start({
      name = 'clangd',
      cmd = { clangd, '--background-index=0' },
      root_dir = vim.fs.dirname(vim.api.nvim_buf_get_name(0)),
      capabilities = offering(encoding ~= '' and encoding or nil),
    })
  ]], clangd, theirs or '')
  check.ok(title .. 'both are attached', editor:wait(SOON_MS, [[
    local found = {}
    for _, client in ipairs(vim.lsp.get_clients({ bufnr = 0 })) do
      found[client.name] = client.initialized and client.offset_encoding
    end
    _G.encodings = found
    return found.linelens and found.clangd
  ]]), editor:lua('return { _G.encodings, _G.notes }'))
  check.ok(title .. 'each with its encoding', editor:lua([[
    local ours, theirs = ...
    return (ours == '' or encodings.linelens == ours) and (theirs == '' or encodings.clangd == theirs)
  ]], ours or '', theirs or ''), editor:lua('return _G.encodings'))
  local texts = [[
    local texts = {}
    for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
      local line = vim.api.nvim_buf_get_lines(0, diagnostic.lnum, diagnostic.lnum + 1, false)[1]
      local source = diagnostic.source == 'linelens' and 'linelens' or 'clangd'
      table.insert(texts, source .. ' ' .. line:sub(diagnostic.col + 1, diagnostic.end_col))
    end
    table.sort(texts)
  ]]
  editor:wait(SOON_MS, texts .. 'return #texts == 4')
  check.equal(title .. 'each marks its own words', editor:lua(texts .. 'return texts'),
    { 'clangd undeclared', 'clangd unknown', 'linelens three', 'linelens twice' })

  -- Both are asked, each by its own columns.
  local hovers = editor:wait(SOON_MS, [[
    vim.api.nvim_win_set_cursor(0, { 1, (vim.api.nvim_buf_get_lines(0, 0, 1, false)[1]:find('twice')) - 1 })
    local found = {}
    for _, client in ipairs(vim.lsp.get_clients({ bufnr = 0 })) do
      local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
      local util = require('linelens.util')
      util.call(client, 'request', 'textDocument/hover', params, function(_, result)
        found[client.name] = result and vim.inspect(result.contents) or ''
      end, 0)
    end
    vim.wait(5000, function() return found.linelens and found.clangd end, 10)
    _G.hovers = found
    return (found.linelens or ''):find('twice') and (found.clangd or ''):find('twice') and true
  ]])
  check.ok(title .. 'both have a hover on the name', hovers, editor:lua('return _G.hovers'))
  if editor:lua("return vim.fn.has('nvim-0.11') == 1") then
    editor:lua('vim.lsp.buf.hover()')
    check.ok(title .. 'which Neovim shows in one window', editor:wait(SOON_MS, [[
      for _, window in ipairs(vim.api.nvim_list_wins()) do
        if vim.api.nvim_win_get_config(window).relative ~= '' then
          local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
          _G.float = table.concat(lines, '\n')
          return _G.float:find('linelens') and _G.float:find('clangd') and _G.float:find('int twice') and true
        end
      end
    ]]), editor:lua('return _G.float'))
  end
  check.ok(title .. 'lines are shaded', editor:wait(SOON_MS, [[
    local space = require('linelens.heat').namespaces.heat
    return #vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {}) > 1
  ]]))

  -- An edit behind such characters reaches both, each in its own columns.
  editor:lua([[
    local column = vim.api.nvim_buf_get_lines(0, 4, 5, false)[1]:find('unknown') - 1
    vim.api.nvim_buf_set_text(0, 4, column, 4, column + #'unknown', { 'number + other' })
    column = vim.api.nvim_buf_get_lines(0, 0, 1, false)[1]:find('twice') - 1
    vim.api.nvim_buf_set_text(0, 0, column, 0, column + #'twice', { 'thrice' })
  ]])
  local wanted = { 'clangd other', 'clangd twice', 'clangd undeclared', 'linelens three', 'linelens thrice' }
  editor:wait(SOON_MS, texts .. 'return vim.deep_equal(texts, { ... })', unpack(wanted))
  check.equal(title .. 'and after an edit again', editor:lua(texts .. 'return texts'), wanted)
  editor:command('LineLens label vulnerable')
  local file = workspace .. '/.linelens/annotations.jsonl'
  check.ok(title .. 'commands go to linelens', child.until_true(SOON_MS, function()
    return vim.uv.fs_stat(file) ~= nil
  end), editor:lua('return _G.notes'))
  vim.fn.delete(file)
  editor:lua([[
    for _, client in ipairs(vim.lsp.get_clients({ name = 'clangd' })) do
      vim.lsp.stop_client(client.id, true)
    end
  ]])
  editor:stop()
end

run()
run('utf-8', 'utf-16')
run('utf-32', 'utf-8')
check.finish('Beside clangd')
