--- The shades: derived from the colours of the colour scheme, readable on every step, one hue, ordered by lightness.

local M = {}

--- Steps of the scale; step 0 is not shaded.
M.STEPS = 8

--- WCAG 2.2, 1.4.3.
M.CONTRAST = 4.5

-- Amber keeps its distance from grey for readers without red or green cones.
local HUE = math.rad(70)
local CHROMA = 0.12
-- Lightness (OKLab) from the background to the strongest step: at most, and at least, so that something is seen.
local REACH, LEAST = 0.42, 0.05
-- Screens show no steps between darker colours, so the scale of a black background starts here.
local DARKEST = 0.15

--- What C and C++ are drawn with; where such a colour is readable without shading, it stays so.
local TEXT_GROUPS = {
  'Comment', 'Constant', 'String', 'Character', 'Number', 'Boolean', 'Float', 'Identifier', 'Function', 'Statement',
  'Conditional', 'Repeat', 'Label', 'Operator', 'Keyword', 'PreProc', 'Include', 'Define', 'Macro', 'Type',
  'StorageClass', 'Structure', 'Typedef', 'Special', 'SpecialChar', 'Delimiter', '@variable', '@property',
  '@function', '@type', '@keyword', '@constant',
}

-- Colours -------------------------------------------------------------------------------------------------------------

local function to_linear(channel)
  channel = channel / 255
  return channel <= 0.04045 and channel / 12.92 or ((channel + 0.055) / 1.055) ^ 2.4
end

local function from_linear(value)
  value = value <= 0.0031308 and value * 12.92 or 1.055 * value ^ (1 / 2.4) - 0.055
  return math.floor(math.min(math.max(value, 0), 1) * 255 + 0.5)
end

local function linear(colour)
  local red, green, blue = math.floor(colour / 65536), math.floor(colour / 256) % 256, colour % 256
  return to_linear(red), to_linear(green), to_linear(blue)
end

--- Relative luminance (WCAG).
function M.luminance(colour)
  local red, green, blue = linear(colour)
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
end

--- Contrast ratio (WCAG), 1 to 21.
function M.contrast(one, other)
  local a, b = M.luminance(one), M.luminance(other)
  return (math.max(a, b) + 0.05) / (math.min(a, b) + 0.05)
end

local function cbrt(value)
  return value < 0 and -((-value) ^ (1 / 3)) or value ^ (1 / 3)
end

--- OKLab (Ottosson 2020).
local function oklab(colour)
  local r, g, b = linear(colour)
  local l = cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
  local m = cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
  local s = cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
  return {
    0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
  }
end

--- The colour, and whether the screen can show it.
local function from_oklab(lab)
  local l = (lab[1] + 0.3963377774 * lab[2] + 0.2158037573 * lab[3]) ^ 3
  local m = (lab[1] - 0.1055613458 * lab[2] - 0.0638541728 * lab[3]) ^ 3
  local s = (lab[1] - 0.0894841775 * lab[2] - 1.2914855480 * lab[3]) ^ 3
  local r = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s
  local g = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s
  local b = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s
  local low, high = math.min(r, g, b), math.max(r, g, b)
  return from_linear(r) * 65536 + from_linear(g) * 256 + from_linear(b), low >= -1e-4 and high <= 1 + 1e-4
end

local function mixed(one, other, share)
  local lab = {}
  for index = 1, 3 do
    lab[index] = one[index] + (other[index] - one[index]) * share
  end
  return (from_oklab(lab))
end

--- The most colourful amber of a lightness.
local function amber(lightness)
  for chroma = CHROMA, 0, -0.005 do
    local lab = { lightness, chroma * math.cos(HUE), chroma * math.sin(HUE) }
    local _, fits = from_oklab(lab)
    if fits then
      return lab
    end
  end
  return { lightness, 0, 0 }
end

-- The scale -----------------------------------------------------------------------------------------------------------

--- The step of a score in 0..1; only a score of 0 has none.
function M.step(score)
  if type(score) ~= 'number' or score ~= score then
    return 0
  end
  return math.min(math.max(math.ceil(score * M.STEPS), 0), M.STEPS)
end

local BARS = { '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }

--- The bar of a score, so that relevance can be read without colour.
function M.bar(score)
  return BARS[M.step(score)] or ' '
end

--- The steps' colours on `background`. `text` stays readable on all of them, and so does each of `others` that is
--- readable on the background itself, as long as that leaves enough to tell the steps apart.
function M.ramp(background, text, others)
  local base = oklab(background)
  local direction = M.luminance(background) < M.luminance(text) and 1 or -1
  base[1] = direction == 1 and math.max(base[1], DARKEST) or base[1]
  local must = math.min(M.CONTRAST, M.contrast(text, background) * 0.9)
  local readable = {}
  for _, other in ipairs(others or {}) do
    if M.contrast(other, background) >= M.CONTRAST then
      table.insert(readable, other)
    end
  end
  local strongest = background
  for reach = REACH, 0, -0.005 do
    local lightness = base[1] + direction * reach
    if lightness > 0 and lightness < 1 then
      local colour = (from_oklab(amber(lightness)))
      local ok = M.contrast(text, colour) >= must
      for _, other in ipairs(reach > LEAST and readable or {}) do
        ok = ok and M.contrast(other, colour) >= M.CONTRAST
      end
      if ok then
        strongest = colour
        break
      end
    end
  end
  local colours, goal = {}, oklab(strongest)
  for step = 1, M.STEPS do
    colours[step] = mixed(base, goal, step / M.STEPS)
  end
  return colours
end

--- `text` moved towards the background as far as it stays readable.
function M.dimmed(text, background)
  local from, to = oklab(text), oklab(background)
  for share = 0.6, 0, -0.02 do
    local colour = mixed(from, to, share)
    if M.contrast(colour, background) >= M.CONTRAST then
      return colour
    end
  end
  return text
end

--- The nearest colour of the cube of 256-colour terminals.
function M.xterm(colour)
  local levels = { 0, 95, 135, 175, 215, 255 }
  local function nearest(value)
    local best = 1
    for index, level in ipairs(levels) do
      if math.abs(level - value) < math.abs(levels[best] - value) then
        best = index
      end
    end
    return best - 1
  end
  local red, green, blue = math.floor(colour / 65536), math.floor(colour / 256) % 256, colour % 256
  return 16 + 36 * nearest(red) + 6 * nearest(green) + nearest(blue)
end

-- Highlight groups ----------------------------------------------------------------------------------------------------

local function resolved(name)
  return vim.api.nvim_get_hl(0, { name = name, link = false })
end

--- What is drawn now: background, text, and the colours of syntax.
function M.scheme()
  local dark = vim.o.background == 'dark'
  local normal = resolved('Normal')
  local background = normal.bg or (dark and 0x14161b or 0xffffff)
  local text = normal.fg or (dark and 0xe0e2ea or 0x14161b)
  local others = {}
  for _, name in ipairs(TEXT_GROUPS) do
    table.insert(others, resolved(name).fg)
  end
  return { background = background, text = text, others = others }
end

--- What we defined, to tell it from what the user or the colour scheme did.
local ours = {}

--- Defines a group unless somebody else has.
local function define(name, definition)
  local now = vim.api.nvim_get_hl(0, { name = name })
  if next(now) == nil or vim.deep_equal(now, ours[name]) then
    vim.api.nvim_set_hl(0, name, definition)
    ours[name] = vim.api.nvim_get_hl(0, { name = name })
  end
end

function M.group(step)
  return 'LinelensHeat' .. step
end

--- Defines all groups for the present colour scheme.
function M.apply()
  local scheme = M.scheme()
  local ramp = M.ramp(scheme.background, scheme.text, scheme.others)
  for step, colour in ipairs(ramp) do
    define(M.group(step), { bg = colour, ctermbg = M.xterm(colour) })
  end
  -- Scores stand on shaded lines.
  local quiet = resolved('Comment').fg or scheme.text
  if M.contrast(quiet, ramp[M.STEPS]) < M.CONTRAST then
    quiet = scheme.text
  end
  define('LinelensScore', { fg = quiet, ctermfg = M.xterm(quiet) })
  local dim = M.dimmed(scheme.text, scheme.background)
  define('LinelensUnseen', { fg = dim, ctermfg = M.xterm(dim) })
  define('LinelensTruth', { link = 'DiagnosticSignWarn' })
end

return M
