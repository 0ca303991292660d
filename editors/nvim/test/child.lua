-- A Neovim with a screen, as a person has it: a child process that is driven by keys and asked what it shows.

local M = {}
M.__index = M

local COLUMNS, LINES = 100, 40
local ANSWER_MS = 30000

--- Starts one with the plugin in its runtimepath. `setup` is Lua that runs before any plugin, like a user's init.lua.
function M.start(nvim, plugin, setup)
  local init = vim.fn.tempname() .. '.lua'
  local file = assert(io.open(init, 'w'))
  file:write(([[
    vim.opt.runtimepath:prepend(%q)
    vim.o.termguicolors, vim.o.swapfile, vim.o.more = true, false, false
    _G.notes = {}
    vim.notify = function(text, level) table.insert(_G.notes, { text = text, level = level }) end
  ]]):format(plugin))
  file:write(setup or '')
  file:close()
  local self = setmetatable({ answers = {}, number = 0 }, M)
  self.input, self.output = vim.uv.new_pipe(), vim.uv.new_pipe()
  local args = vim.list_extend(vim.list_slice(nvim, 2), { '--embed', '-i', 'NONE', '-u', init })
  self.process = assert(vim.uv.spawn(nvim[1], { args = args, stdio = { self.input, self.output, nil } }, function()
    self.ended = true
  end))
  local handle = function() return 0 end
  local unpacker = vim.mpack.Unpacker({ ext = { [0] = handle, [1] = handle, [2] = handle } })
  self.output:read_start(function(_, data)
    local at = 1
    while data and at <= #data do
      local message
      message, at = unpacker(data, at)
      if type(message) == 'table' and message[1] == 1 then
        self.answers[message[2]] = message
      end
    end
  end)
  self:call('nvim_ui_attach', COLUMNS, LINES, { rgb = true, ext_linegrid = true })
  return self
end

function M:call(method, ...)
  self.number = self.number + 1
  local number = self.number
  self.input:write(vim.mpack.encode({ 0, number, method, { ... } }))
  local came = vim.wait(ANSWER_MS, function()
    return self.answers[number] ~= nil or self.ended
  end, 2)
  local answer = self.answers[number]
  assert(came and answer, method .. ' was not answered' .. (self.ended and ': Neovim has ended' or ''))
  self.answers[number] = nil
  if answer[3] ~= nil and answer[3] ~= vim.NIL then
    error(method .. ': ' .. vim.inspect(answer[3]), 2)
  end
  return answer[4]
end

--- Runs Lua in it; arguments are `...`.
function M:lua(code, ...)
  local given = { ... }
  return self:call('nvim_exec_lua', code, #given > 0 and given or vim.empty_dict() and { vim.NIL })
end

function M:command(text)
  return self:call('nvim_command', text)
end

function M:keys(keys)
  return self:call('nvim_input', keys)
end

--- Waits until Lua in it gives something true, and returns that.
function M:wait(milliseconds, code, ...)
  local deadline = vim.uv.hrtime() + milliseconds * 1e6
  repeat
    local found = self:lua(code, ...)
    if found and found ~= vim.NIL then
      return found
    end
    vim.wait(20)
  until vim.uv.hrtime() > deadline
end

--- Waits until a function here, which may ask the child, gives something true.
function M.until_true(milliseconds, condition)
  local deadline = vim.uv.hrtime() + milliseconds * 1e6
  repeat
    if condition() then
      return true
    end
    vim.wait(20)
  until vim.uv.hrtime() > deadline
  return false
end

--- A cell of the screen, from 0: its text and its colours.
function M:cell(row, column)
  local cell = self:call('nvim__inspect_cell', 1, row, column)
  return { text = cell[1], background = cell[2] and cell[2].background, foreground = cell[2] and cell[2].foreground }
end

--- A row of the screen, as text.
function M:row(row)
  return self:lua([[
    local text = {}
    for column = 1, vim.o.columns do
      text[column] = vim.fn.screenstring(... + 1, column)
    end
    return table.concat(text)
  ]], row)
end

function M:stop()
  if not self.ended then
    pcall(function()
      self.input:write(vim.mpack.encode({ 0, 0, 'nvim_command', { 'qall!' } }))
    end)
    if not vim.wait(5000, function() return self.ended end, 10) then
      self.process:kill('sigkill')
      vim.wait(2000, function() return self.ended end, 10)
    end
  end
end

return M
