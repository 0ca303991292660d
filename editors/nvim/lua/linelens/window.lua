--- Windows with text of the server: comparisons and the like.

local M = {}

--- Shows a text in a split of its own; the same address takes the same buffer. `q` closes it.
function M.text(address, text)
  local buf = vim.fn.bufadd(address)
  vim.bo[buf].buftype = 'nofile'
  vim.bo[buf].bufhidden = 'wipe'
  vim.bo[buf].swapfile = false
  vim.fn.bufload(buf)
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(vim.trim(text), '\n'))
  vim.bo[buf].modifiable = false
  vim.bo[buf].filetype = 'linelens'
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buf, nowait = true, desc = 'close' })
  local window = vim.fn.bufwinid(buf)
  if window ~= -1 then
    vim.api.nvim_set_current_win(window)
    return
  end
  local height = math.min(vim.api.nvim_buf_line_count(buf) + 1, math.floor(vim.o.lines / 2))
  vim.cmd(('botright %dsplit'):format(height))
  vim.api.nvim_win_set_buf(0, buf)
  vim.wo.wrap = false
  vim.wo.spell = false
  vim.wo.number = false
  vim.wo.relativenumber = false
end

return M
