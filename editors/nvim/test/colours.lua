-- The shades as numbers, without a server: contrast on every step, order, distance, colour blindness; many schemes.
-- nvim --headless --clean -l colours.lua PLUGIN

local plugin = arg[1]
vim.opt.runtimepath:prepend(plugin)
package.path = plugin .. '/test/?.lua;' .. package.path
local check = require('check')
local colours = require('linelens.colours')

-- Known values --------------------------------------------------------------------------------------------------------

check.ok('black on white has a contrast of 21', math.abs(colours.contrast(0x000000, 0xffffff) - 21) < 1e-9)
check.ok('#767676 on white just passes 4.5', math.abs(colours.contrast(0x767676, 0xffffff) - 4.54) < 0.005,
  colours.contrast(0x767676, 0xffffff))
check.equal('steps of scores', vim.tbl_map(colours.step, { 0, 1e-9, 0.125, 0.126, 0.5, 0.83, 1, 0 / 0 }),
  { 0, 1, 1, 2, 4, 7, 8, 0 })
check.equal('bars of scores', vim.tbl_map(colours.bar, { 0, 0.1, 0.83, 1 }), { ' ', '▁', '▇', '█' })
check.equal('colours of 256-colour terminals', vim.tbl_map(colours.xterm, { 0x000000, 0xffffff, 0xff8700 }),
  { 16, 231, 208 })

-- Colour blindness: Viénot, Brettel & Mollon 1999, on linear RGB -----------------------------------------------------

local SEEN = {
  deuteranopia = { { 0.29275, 0.70725, 0 }, { 0.29275, 0.70725, 0 }, { -0.02234, 0.02234, 1 } },
  protanopia = { { 0.11238, 0.88762, 0 }, { 0.11238, 0.88762, 0 }, { 0.00401, -0.00401, 1 } },
}

local function to_linear(value)
  value = value / 255
  return value <= 0.04045 and value / 12.92 or ((value + 0.055) / 1.055) ^ 2.4
end

--- CIE L*a*b* as somebody sees the colour.
local function lab(colour, matrix)
  local rgb = {}
  for index, channel in ipairs({ math.floor(colour / 65536), math.floor(colour / 256) % 256, colour % 256 }) do
    rgb[index] = to_linear(channel)
  end
  local seen = rgb
  if matrix then
    seen = {}
    for row = 1, 3 do
      seen[row] = matrix[row][1] * rgb[1] + matrix[row][2] * rgb[2] + matrix[row][3] * rgb[3]
    end
  end
  local x = (0.4124564 * seen[1] + 0.3575761 * seen[2] + 0.1804375 * seen[3]) / 0.95047
  local y = 0.2126729 * seen[1] + 0.7151522 * seen[2] + 0.0721750 * seen[3]
  local z = (0.0193339 * seen[1] + 0.1191920 * seen[2] + 0.9503041 * seen[3]) / 1.08883
  local function f(t)
    return t > 216 / 24389 and t ^ (1 / 3) or (24389 / 27 * t + 16) / 116
  end
  return { 116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z)) }
end

local function distance(one, other, matrix)
  local a, b = lab(one, matrix), lab(other, matrix)
  return math.sqrt((a[1] - b[1]) ^ 2 + (a[2] - b[2]) ^ 2 + (a[3] - b[3]) ^ 2)
end

-- Colour schemes ------------------------------------------------------------------------------------------------------

local function background_of(step)
  return vim.api.nvim_get_hl(0, { name = colours.group(step) }).bg
end

--- Checks all steps of the scheme that is set.
local function scheme(name, least_distance)
  local now = colours.scheme()
  local ramp = {}
  for step = 1, colours.STEPS do
    ramp[step] = background_of(step)
  end
  local must = math.min(colours.CONTRAST, colours.contrast(now.text, now.background) * 0.9)
  local worst, order, nearest = math.huge, true, { plain = math.huge, deuteranopia = math.huge, protanopia = math.huge }
  local before = now.background
  local brighter = colours.luminance(now.text) > colours.luminance(now.background)
  local syntax = math.huge
  for _, colour in ipairs(ramp) do
    worst = math.min(worst, colours.contrast(now.text, colour))
    for _, other in ipairs(now.others) do
      if colours.contrast(other, now.background) >= colours.CONTRAST then
        syntax = math.min(syntax, colours.contrast(other, colour))
      end
    end
    local up = colours.luminance(colour) > colours.luminance(before)
    order = order and colour ~= before and up == brighter
    for kind in pairs(nearest) do
      nearest[kind] = math.min(nearest[kind], distance(colour, before, SEEN[kind]))
    end
    before = colour
  end
  check.say(('        %s: text %.2f, syntax %.2f; steps apart by %.1f, deuteranopia %.1f, protanopia %.1f (ΔE)'):format(
    name, worst, syntax, nearest.plain, nearest.deuteranopia, nearest.protanopia))
  check.ok(name .. ': text is readable on every step', worst >= must, worst)
  check.ok(name .. ': the steps are ordered by lightness', order, ramp)
  check.ok(name .. ': the steps differ, for colour-blind readers too',
    math.min(nearest.plain, nearest.deuteranopia, nearest.protanopia) >= least_distance, nearest)
  local score = vim.api.nvim_get_hl(0, { name = 'LinelensScore' }).fg
  check.ok(name .. ': scores are readable on the strongest step', colours.contrast(score, ramp[8]) >= must, score)
  local unseen = vim.api.nvim_get_hl(0, { name = 'LinelensUnseen' }).fg
  check.ok(name .. ': unseen lines are dimmed, and readable',
    colours.contrast(unseen, now.background) >= must
      and colours.contrast(unseen, now.background) <= colours.contrast(now.text, now.background), unseen)
  return syntax
end

vim.o.termguicolors = true
require('linelens').start()
for _, background in ipairs({ 'dark', 'light' }) do
  vim.o.background = background
  vim.cmd.colorscheme('default')
  local syntax = scheme('default ' .. background, 1)
  check.ok('default ' .. background .. ': the colours of syntax stay readable', syntax >= colours.CONTRAST, syntax)
end
-- High contrast: pure black and white.
local HIGH_CONTRAST = { dark = { fg = '#ffffff', bg = '#000000' }, light = { fg = '#000000', bg = '#ffffff' } }
for background, normal in pairs(HIGH_CONTRAST) do
  vim.o.background = background
  vim.cmd.highlight('clear')
  vim.api.nvim_set_hl(0, 'Normal', normal)
  vim.api.nvim_exec_autocmds('ColorScheme', {})
  scheme('high contrast ' .. background, 1)
end
for _, name in ipairs({ 'habamax', 'retrobox', 'wildcharm', 'lunaperche', 'zaibatsu', 'morning', 'shine', 'quiet' }) do
  vim.o.background = 'dark'
  if pcall(vim.cmd.colorscheme, name) then
    scheme(name, 0.5)
  end
end

-- Who decides ---------------------------------------------------------------------------------------------------------

vim.cmd.colorscheme('default')
vim.api.nvim_set_hl(0, 'LinelensHeat8', { bg = '#123456' })
vim.api.nvim_exec_autocmds('ColorScheme', {})
check.equal("a user's colour is kept", background_of(8), 0x123456)
vim.o.background = 'light'
vim.cmd.colorscheme('default')
check.ok('a change of the scheme replaces ours', background_of(3) ~= nil
  and colours.luminance(background_of(3)) > 0.3, background_of(3))
local link = vim.api.nvim_get_hl(0, { name = 'LinelensTruth' }).link
check.equal('the sign has the colours of the scheme', link, 'DiagnosticSignWarn')

check.finish('Shades')
