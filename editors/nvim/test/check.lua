-- Checks that are counted, and the closing line.

local M = { passed = 0, failed = 0 }

function M.say(text)
  io.stdout:write(text, '\n')
end

function M.ok(what, ok, found)
  if ok then
    M.passed = M.passed + 1
    M.say('ok      ' .. what)
  else
    M.failed = M.failed + 1
    M.say('FAILED  ' .. what)
    if found ~= nil then
      M.say('        found: ' .. vim.inspect(found))
    end
  end
  return ok
end

function M.equal(what, found, expected)
  return M.ok(what, vim.deep_equal(found, expected), { found = found, expected = expected })
end

function M.finish(name)
  M.say(('\n%s: %d passed, %d failed'):format(name, M.passed, M.failed))
  io.stdout:flush()
  vim.cmd('cquit ' .. (M.failed > 0 and 1 or 0))
end

return M
