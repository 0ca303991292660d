--- Options of the plugin: defaults, `vim.g.linelens`, `setup{}`; checked key by key.

local M = {}

local LABELS = { string = 'a string', boolean = 'true or false', number = 'a number', table = 'a table' }

local function of_type(expected)
  return function(value)
    return type(value) == expected, LABELS[expected]
  end
end

local function strings(value)
  local ok = vim.islist(value) and #value > 0
  for _, item in ipairs(ok and value or {}) do
    ok = ok and type(item) == 'string'
  end
  return ok, 'a list of strings'
end

local function between(low, high)
  return function(value)
    local ok = type(value) == 'number' and value >= low and value <= high and value % 1 == 0
    return ok, ('a whole number from %d to %d'):format(low, high)
  end
end

local function one_of(...)
  local choices = { ... }
  return function(value)
    return vim.tbl_contains(choices, value), 'one of ' .. table.concat(choices, ', ')
  end
end

local function sign(value)
  local width = type(value) == 'string' and vim.fn.strdisplaywidth(value) or 0
  return width >= 1 and width <= 2, 'text of one or two columns'
end

--- Every option: its default and its check.
M.schema = {
  cmd = { { 'linelens', 'lsp' }, strings },
  filetypes = { { 'c', 'cpp' }, strings },
  root_markers = { { 'linelens.toml', '.linelens', '.git' }, strings },
  autostart = { true, of_type('boolean') },
  settings = { {}, of_type('table') },
  follow = { true, of_type('boolean') },
  debounce_ms = { 150, between(0, 10000) },
  shading = { true, of_type('boolean') },
  scores = { 'top', one_of('off', 'top', 'all') },
  top = { 5, between(1, 1000) },
  signs = { true, of_type('boolean') },
  sign_text = { '●', sign },
  unseen = { true, of_type('boolean') },
}

local function defaults()
  local options = {}
  for name, entry in pairs(M.schema) do
    options[name] = vim.deepcopy(entry[1])
  end
  return options
end

M.options = defaults()

--- Problems found in options, as sentences; `:checkhealth linelens` repeats them.
M.problems = {}

--- How many characters have to be put in, left out or replaced to make one word of another.
local function edits(one, other)
  local row = {}
  for at = 0, #other do
    row[at] = at
  end
  for from = 1, #one do
    local above_left = row[0]
    row[0] = from
    for to = 1, #other do
      local kept = above_left + (one:byte(from) == other:byte(to) and 0 or 1)
      above_left = row[to]
      row[to] = math.min(kept, row[to] + 1, row[to - 1] + 1)
    end
  end
  return row[#other]
end

--- The option that a name may stand for that is none, so that a typing error is found at once.
local function nearest(name)
  local best, score = nil, math.max(1, math.floor(#name / 2)) + 1
  for known in pairs(M.schema) do
    local distance = edits(name:lower(), known:lower())
    if distance < score or (best and distance == score and known < best) then
      best, score = known, distance
    end
  end
  return best
end

--- Takes over what is right of `given` and returns what is wrong, as sentences.
local function take(given, source)
  if type(given) ~= 'table' then
    return { ('%s is %s, but must be a table'):format(source, vim.inspect(given)) }
  end
  local problems = {}
  for name, value in pairs(given) do
    local entry = M.schema[name]
    if not entry then
      local hint = nearest(tostring(name))
      local advice = hint and ('did you mean `%s`?'):format(hint) or ':help linelens-options lists them'
      table.insert(problems, ('%s: there is no option `%s`; %s'):format(source, tostring(name), advice))
    else
      local ok, expected = entry[2](value)
      if ok then
        M.options[name] = vim.deepcopy(value)
      else
        local found = vim.inspect(value, { newline = ' ', indent = '' })
        table.insert(problems, ('%s: `%s` is %s, but must be %s'):format(source, name, found, expected))
      end
    end
  end
  table.sort(problems)
  return problems
end

local loaded = false

--- Options from `vim.g.linelens`, unless something was loaded before.
function M.ensure()
  if not loaded then
    M.load()
  end
end

--- Options from `vim.g.linelens`, then from `setup{}`.
function M.load(given)
  loaded = true
  M.options = defaults()
  M.problems = {}
  if vim.g.linelens ~= nil then
    vim.list_extend(M.problems, take(vim.g.linelens, 'vim.g.linelens'))
  end
  if given ~= nil then
    vim.list_extend(M.problems, take(given, 'setup'))
  end
end

--- Whether a line is one of the most relevant; the least relevant one of a function, whose score is 0, never is.
function M.is_top(line)
  return line.rank <= M.options.top and line.score > 0
end

return M
