--- Messages, guarded callbacks, and what differs between Neovim versions.

local M = {}

local shown = {}

--- Whether methods of a client are called with a colon.
local has_methods = vim.fn.has('nvim-0.11') == 1

-- A refused command is told twice by the server, as a message and as an answer.
local ECHO_MS = 1000
local last = { at = 0 }

local function say(message, level)
  local now = vim.uv.now()
  if message == last.message and now - last.at < ECHO_MS then
    return
  end
  last = { message = message, at = now }
  vim.schedule(function()
    vim.notify('linelens: ' .. message, level, { title = 'linelens' })
  end)
end

function M.info(message)
  say(message, vim.log.levels.INFO)
end

function M.warn(message)
  say(message, vim.log.levels.WARN)
end

function M.error(message)
  say(message, vim.log.levels.ERROR)
end

--- Whether one message is the other, or that with a line before it.
local function is_same(one, other)
  return one == other or vim.endswith(one, '\n' .. other) or vim.endswith(other, '\n' .. one)
end

--- A message that comes again and again is shown once, until `forget`.
function M.once(message, level)
  for known in pairs(shown) do
    if is_same(known, message) then
      return
    end
  end
  shown[message] = true
  say(message, level or vim.log.levels.ERROR)
end

--- After a success or a restart an old message may be news again.
function M.forget()
  shown = {}
end

--- The longest time that one callback of ours kept the editor, and the time the processor spent on it.
M.longest = { ms = 0, cpu_ms = 0, what = 'nothing' }

--- A callback whose errors are shown once, and whose time is taken.
function M.guard(what, callback)
  return function(...)
    local started, clock = vim.uv.hrtime(), os.clock()
    local ok, result = xpcall(callback, debug.traceback, ...)
    local ms = (vim.uv.hrtime() - started) / 1e6
    if ms > M.longest.ms then
      M.longest = { ms = ms, cpu_ms = (os.clock() - clock) * 1e3, what = what }
    end
    if not ok then
      M.once(('%s failed; this is an error of the plugin, please report it:\n%s'):format(what, result))
      return nil
    end
    return result
  end
end

--- A method of a client: `call(client, 'request', ...)`.
function M.call(client, method, ...)
  if has_methods then
    return client[method](client, ...)
  end
  return client[method](...)
end

--- The version of a buffer's text that the server knows, or is about to.
function M.version(buf)
  return vim.lsp.util.buf_versions[buf]
end

--- A number and its noun: `1 file`, `3 files`.
function M.count(number, noun)
  return ('%d %s%s'):format(number, noun, number == 1 and '' or 's')
end

--- What a person calls the reason of a refusal.
function M.reason(problem)
  if type(problem) ~= 'table' then
    return tostring(problem)
  end
  return (problem.message or vim.inspect(problem)):gsub('^linelens: ', '')
end

return M
