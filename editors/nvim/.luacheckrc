-- luacheck, run by scripts/test-nvim.sh
std = 'luajit'
globals = { 'vim' }
max_line_length = 120
max_cyclomatic_complexity = 20
-- A test is a list of steps.
files['**/test/*.lua'] = { max_cyclomatic_complexity = false }
