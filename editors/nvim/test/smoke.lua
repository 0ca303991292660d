-- A session of Neovim with the server as a plain client, without any plugin: diagnostics, hover, `linelens/explain`,
-- edits, shutdown. Run by scripts/test-nvim.sh: nvim --headless --clean -l smoke.lua BINARY WORKSPACE

local binary, workspace = arg[1], arg[2]
local START_MS, ANSWER_MS = 60000, 30000

local passed, failed = 0, 0

local function say(text)
  io.stdout:write(text, '\n')
end

local function check(what, ok, found)
  if ok then
    passed = passed + 1
    say('ok      ' .. what)
  else
    failed = failed + 1
    say('FAILED  ' .. what)
    if found ~= nil then
      say('        found: ' .. vim.inspect(found))
    end
  end
  return ok
end

local function wait_for(what, milliseconds, condition, found)
  local ok = vim.wait(milliseconds, condition, 20)
  return check(what, ok, not ok and found and found() or nil)
end

local function finish()
  say(('\nNeovim: %d passed, %d failed'):format(passed, failed))
  if failed > 0 then
    local log = io.open(vim.lsp.log.get_filename(), 'r')
    if log then
      say('\nThe end of the client log:\n' .. log:read('*a'):sub(-4000))
      log:close()
    end
  end
  io.stdout:flush()
  vim.cmd('cquit ' .. (failed > 0 and 1 or 0))
end

-- What the server was started as, so that it can be asked whether it is still there.
local pid_file = workspace .. '/server.pid'
local relevance, exit = {}, nil

vim.lsp.log.set_level('info')
local capabilities = vim.lsp.protocol.make_client_capabilities()
capabilities.experimental = { linelens = { relevance = true } }
vim.lsp.config('linelens', {
  cmd = { 'sh', '-c', 'echo $$ > "$1"; exec "$2" lsp', 'sh', pid_file, binary },
  filetypes = { 'c', 'cpp' },
  root_dir = workspace,
  capabilities = capabilities,
  -- Every function is above 0, so nothing here depends on what the detector thinks of the examples.
  init_options = { threshold = 0, analyze = 'file', debounceMs = 50 },
  handlers = {
    ['linelens/relevance'] = function(_, params)
      table.insert(relevance, params)
    end,
  },
  on_exit = function(code, signal)
    exit = { code = code, signal = signal }
  end,
})
vim.lsp.enable('linelens')
vim.cmd.edit(vim.fn.fnameescape(workspace .. '/records.c'))
vim.bo.filetype = 'c'

local buffer = vim.api.nvim_get_current_buf()
local function client()
  return vim.lsp.get_clients({ bufnr = buffer, name = 'linelens' })[1]
end

if
  not wait_for('the server starts and is initialized', START_MS, function()
    return client() ~= nil and client().initialized
  end)
then
  finish()
end
local server = client()

-- 0-based line and byte column of the name in the definition of a function.
local function definition_of(name)
  for line, text in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
    local column = text:find('%f[%w_]' .. name .. '%(')
    if column and not text:find(';', 1, true) and not text:find('^%s') then
      return line - 1, column - 1
    end
  end
end

local function marked_text(diagnostic)
  local line = vim.api.nvim_buf_get_lines(buffer, diagnostic.lnum, diagnostic.lnum + 1, false)[1] or ''
  return diagnostic.lnum == diagnostic.end_lnum and line:sub(diagnostic.col + 1, diagnostic.end_col) or line
end

local function diagnostics_by_name()
  local by_name = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(buffer)) do
    by_name[marked_text(diagnostic)] = diagnostic
  end
  return by_name
end

local function request(method, params)
  local answer, problem = server:request_sync(method, params, ANSWER_MS, buffer)
  if not answer then
    return nil, problem
  end
  return answer.result, answer.err
end

local function at(line, character)
  return {
    textDocument = vim.lsp.util.make_text_document_params(buffer),
    position = { line = line, character = character },
  }
end

-- Diagnostics ---------------------------------------------------------------------------------------------------------

if
  not wait_for('a flagged function gets a diagnostic on its name', START_MS, function()
    return diagnostics_by_name().read_record ~= nil
  end, function()
    return vim.diagnostic.get(buffer)
  end)
then
  finish()
end
wait_for('so does every other function of the file', ANSWER_MS, function()
  local names = diagnostics_by_name()
  return names.get_u16 and names.read_record_checked and names.free_record
end, function()
  return vim.tbl_keys(diagnostics_by_name())
end)
local diagnostic = diagnostics_by_name().read_record or {}
check('its source is linelens', diagnostic.source == 'linelens', diagnostic)
check('it is information, not an error', diagnostic.severity == vim.diagnostic.severity.INFO, diagnostic)
check('it names a probability', (diagnostic.message or ''):find('%d%.%d') ~= nil, diagnostic)

-- linelens/explain ----------------------------------------------------------------------------------------------------

local line, column = definition_of('read_record')
local finding, problem = request('linelens/explain', at(line, column))
if check('linelens/explain answers', type(finding) == 'table', problem or finding) then
  local text = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local name = finding['function']
  check('it is about the function', name.name == 'read_record' and name.kind == 'function', name)
  check('its lines count from 0', name.startLine == line and text[name.endLine + 1] == '}', name)
  check('it has a probability and a threshold', finding.probability > 0 and finding.probability <= 1
    and finding.threshold == 0 and finding.flagged == true, finding)
  check('it says how it was made', type(finding.method) == 'string' and type(finding.profile) == 'string'
    and type(finding.executionProvider) == 'string' and type(finding.model.sha256) == 'string'
    and finding.windows >= 1, finding)
  check('it belongs to the version shown',
    finding.textDocument.version == vim.lsp.util.buf_versions[buffer], finding.textDocument)

  local ranks, wrong, best = {}, {}, 0
  for _, scored in ipairs(finding.lines) do
    ranks[scored.rank] = true
    best = math.max(best, scored.score)
    local inside = scored.line >= name.startLine and scored.line <= name.endLine
    local known = vim.trim(scored.text) == vim.trim(text[scored.line + 1] or '')
    if not inside or not known or scored.score < 0 or scored.score > 1 or type(scored.raw) ~= 'number' then
      table.insert(wrong, scored)
    end
  end
  check('every line lies in the function, with its text and a score', #finding.lines > 5 and #wrong == 0, wrong)
  check('the ranks are 1 to n, the best score is 1', #ranks == #finding.lines and best == 1, finding.lines)
end
local outside = request('linelens/explain', at(0, 0))
check('outside a function the answer is null', outside == nil or outside == vim.NIL, outside)
local _, refused = request('linelens/explain', vim.tbl_extend('force', at(line, column), { method = 'nonsense' }))
check('an unknown method is an error that says so',
  type(refused) == 'table' and (refused.message or ''):find('nonsense') ~= nil, refused)

-- Hover ---------------------------------------------------------------------------------------------------------------

local function hover_text(where, position)
  local hover, hover_problem = request('textDocument/hover', position)
  local value = hover and hover ~= vim.NIL and hover.contents and (hover.contents.value or hover.contents)
  check('hover on ' .. where .. ' answers', type(value) == 'string', hover_problem or hover)
  return type(value) == 'string' and value or ''
end

local hover = hover_text("the function's name", at(line, column))
check('it names the function and its probability', hover:find('read') and hover:find('%d%.%d%d'), hover)
check('it names the method', hover:find('attention', 1, true), hover)
hover = hover_text('a line', at(line + 5, 4))
check('it shows the relevance of the line', hover:find('relevance', 1, true) and hover:find('%d%.%d%d'), hover)

-- Relevance for clients that shade ----------------------------------------------------------------------------------

local uri = vim.uri_from_bufnr(buffer)
local function last_relevance()
  for index = #relevance, 1, -1 do
    if relevance[index].textDocument.uri == uri then
      return relevance[index]
    end
  end
end
wait_for('linelens/relevance arrives', ANSWER_MS, function()
  return last_relevance() ~= nil and #last_relevance().functions > 0
end, last_relevance)

-- Edits ---------------------------------------------------------------------------------------------------------------

vim.api.nvim_buf_set_lines(buffer, 0, 0, false, { '/* « a comment above everything » */', '' })
wait_for('an edit above moves the diagnostics along', ANSWER_MS, function()
  local names = diagnostics_by_name()
  return names.read_record and names.read_record.lnum == line + 2 and names.free_record ~= nil
end, function()
  return vim.diagnostic.get(buffer)
end)

-- The function goes, from its comment to its closing brace.
vim.api.nvim_buf_set_lines(buffer, line + 1, line + 32, false, {})
wait_for('the diagnostic of a deleted function goes', ANSWER_MS, function()
  local names = diagnostics_by_name()
  return names.read_record == nil and names.read_record_checked ~= nil
    and #vim.diagnostic.get(buffer) == #vim.tbl_keys(names)
end, function()
  return vim.diagnostic.get(buffer)
end)
local misplaced = vim.tbl_filter(function(d)
  return definition_of(marked_text(d)) ~= d.lnum
end, vim.diagnostic.get(buffer))
check('all others are on the names of functions', #misplaced == 0, misplaced)

vim.api.nvim_buf_set_lines(buffer, 0, -1, false, { 'int nothing_here;' })
wait_for('without functions no diagnostic stays', ANSWER_MS, function()
  return #vim.diagnostic.get(buffer) == 0
end, function()
  return vim.diagnostic.get(buffer)
end)
wait_for('nor any shading', ANSWER_MS, function()
  return last_relevance() ~= nil and #last_relevance().functions == 0
end, last_relevance)

-- Shutdown ------------------------------------------------------------------------------------------------------------

local pid = tonumber(vim.fn.readfile(pid_file)[1])
check('the server is running until then', vim.uv.kill(pid, 0) == 0, pid)
server:stop()
wait_for('the server ends after shutdown', ANSWER_MS, function()
  return exit ~= nil
end)
check('with exit code 0', vim.deep_equal(exit, { code = 0, signal = 0 }), exit)
check('and leaves no process', vim.uv.kill(pid, 0) ~= 0, pid)
finish()
