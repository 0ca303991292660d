if vim.g.loaded_linelens then
  return
end
vim.g.loaded_linelens = true

if vim.fn.has('nvim-0.10') == 0 then
  vim.api.nvim_echo({ { 'linelens needs Neovim 0.10 or newer', 'ErrorMsg' } }, true, {})
  return
end

vim.api.nvim_create_user_command('LineLens', function(command)
  require('linelens.commands').run(command.fargs)
end, {
  nargs = '*',
  desc = 'Relevant lines of functions, as a vulnerability detector sees them',
  complete = function(lead, line)
    return require('linelens.commands').complete(lead, line)
  end,
})

local maps = {
  explain = 'explain the function under the cursor',
  ['next-method'] = 'explain by the next method',
  method = 'choose the method',
  model = 'choose the model',
  next = 'go to the next relevant line',
  prev = 'go to the previous relevant line',
  compare = 'compare the methods',
  pair = 'compare with the other half of the pair, or with HEAD',
  toggle = 'show or hide everything',
  mark = 'mark or unmark the line as ground truth',
  label = 'label the function',
  note = 'add a note to the function',
  ignore = 'ignore the function, with a reason',
}
for name, description in pairs(maps) do
  local words = name == 'next-method' and 'method next' or name
  local command = ('<Cmd>LineLens %s<CR>'):format(words)
  vim.keymap.set('n', ('<Plug>(linelens-%s)'):format(name), command, { desc = 'linelens: ' .. description })
end

-- Little is loaded before the first file, and `setup` in the user's configuration comes first.
local function start_if_wanted(filetype)
  local config = require('linelens.config')
  config.ensure()
  if vim.tbl_contains(config.options.filetypes, filetype) then
    require('linelens').start()
  end
end

vim.api.nvim_create_autocmd('FileType', {
  group = vim.api.nvim_create_augroup('linelens.load', { clear = true }),
  callback = function(event)
    start_if_wanted(event.match)
  end,
})

-- Loaded late, as by `:packadd`: files may be open already.
if vim.v.vim_did_enter == 1 then
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buf) then
      start_if_wanted(vim.bo[buf].filetype)
    end
  end
end
