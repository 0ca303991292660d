-- luacheck, run by scripts/test-nvim.sh
std = 'luajit'
globals = { 'vim' }
max_line_length = 120
max_cyclomatic_complexity = 20
