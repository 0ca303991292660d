-- linelens in Helix beside another server. Helix runs in the terminal of this Neovim, and is driven by keys.
-- nvim --headless --clean -l helix.lua WORKSPACE HELIX…

local workspace = arg[1]
local helix = vim.list_slice(arg, 2)
package.path = 'editors/nvim/test/?.lua;' .. package.path
local check = require('check')

local PATIENCE_MS = 20000

local buffer = vim.api.nvim_create_buf(false, true)
vim.o.lines = 45
local place = { relative = 'editor', row = 0, col = 0, width = 80, height = 40 }
vim.api.nvim_open_win(buffer, true, place)
local job
vim.api.nvim_buf_call(buffer, function()
  local command = vim.list_extend(vim.deepcopy(helix), { '-w', workspace, workspace .. '/columns.c' })
  local options = { env = { TERM = 'xterm-256color', COLORTERM = 'truecolor' } }
  if vim.fn.has('nvim-0.11') == 1 then
    options.term = true
    job = vim.fn.jobstart(command, options)
  else
    job = vim.fn.termopen(command, options)
  end
end)

local function screen()
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
end

local function keys(text)
  vim.fn.chansend(job, vim.api.nvim_replace_termcodes(text, true, false, true))
  vim.wait(150)
end

local function wait_for(what, condition)
  local ok = vim.wait(PATIENCE_MS, condition, 50)
  return check.ok(what, ok, not ok and screen() or nil)
end

local function shows(...)
  local texts = { ... }
  return function()
    local now = screen()
    for _, text in ipairs(texts) do
      if not now:find(text, 1, true) then
        return false
      end
    end
    return true
  end
end

local function file(name)
  local path = workspace .. '/' .. name
  return vim.uv.fs_stat(path) and table.concat(vim.fn.readfile(path, 'b'), '\n') or ''
end

if not wait_for('the verdicts stand beside the code', shows('three looks vulnerable')) then
  check.finish('Helix')
end
wait_for('so does what the other server says', shows('from the other server'))

-- What a diagnostic marks is what is selected after going to it.
local function marked(name)
  vim.fn.delete(workspace .. '/marked')
  keys((':pipe-to cat > %s/marked<CR>'):format(workspace))
  wait_for('a diagnostic marks the name ' .. name, function()
    return file('marked') == name
  end)
end
keys('gg')
keys(']d')
marked('one')
keys(']d')
marked('two')

keys(' k')
wait_for('the hover on a name has the verdict', shows('two', 'attention:first', 'threshold'))
keys('<Esc>')
keys(' a')
wait_for('code actions are offered', shows('compare methods', 'label the function vulnerable'))
keys('<CR>')
wait_for('the first one marks the line, for the right function', function()
  return file('.linelens/annotations.jsonl'):find('"function":"two"', 1, true) ~= nil
end)
wait_for('and says so', shows('line 1 of two is ground truth'))
keys(':lsp-workspace-command linelens.nextMethod<CR>')
wait_for('a command of the server can be run', shows('linelens: attention:last'))

keys('gg')
keys('O/* above */<Esc>')
keys('gg')
keys(']d')
keys(']d')
wait_for('an edit moves the diagnostics along', shows('three looks vulnerable'))
keys(':q!<CR>')
wait_for('Helix ends', function()
  return vim.fn.jobwait({ job }, 0)[1] ~= -1
end)
check.finish('Helix')
