-- For `vim.lsp.config` of Neovim 0.11 and newer.
return require('linelens.client').config()
