-- A session with Neovim's built-in client, from version 0.7: diagnostics, completion, rename, a fix. Writes what it saw to REPORT.

local report = assert(io.open(vim.env.REPORT, 'w'))
local function say(text)
  report:write(text .. '\n')
  report:flush()
end

local function must(condition, text)
  if not condition then
    say('FAILED: ' .. text)
    report:close()
    vim.cmd('cquit 1')
  end
end

local ok, problem = pcall(function()
  vim.cmd('edit shop.yaml')
  local client = vim.lsp.start_client({
    name = 'kross',
    cmd = { vim.env.KROSS, 'lsp' },
    root_dir = vim.fn.getcwd(),
  })
  must(client and vim.lsp.buf_attach_client(0, client), 'the client is attached')

  -- Neovim asks on the main loop; `vim.wait` lets it run.
  local function wait(text, condition)
    must(vim.wait(60000, condition, 20), text)
    say(text)
  end

  wait('the mistake is shown', function()
    local found = vim.diagnostic.get(0)
    return #found == 1 and found[1].message:find('replcas', 1, true) ~= nil
  end)

  local function request(method, line, column, more)
    local parameters = vim.tbl_extend('force', {
      textDocument = vim.lsp.util.make_text_document_params(),
      position = { line = line, character = column },
    }, more or {})
    local answers = vim.lsp.buf_request_sync(0, method, parameters, 60000)
    local answer = answers and answers[client]
    must(answer and not answer.err, method .. ' is answered: ' .. vim.inspect(answer))
    return answer.result
  end

  local labels = {}
  for _, item in ipairs(request('textDocument/completion', 23, 34)) do
    labels[item.label] = true
  end
  must(labels.replicas and labels.name, 'the fields of the schema are completed')
  say('completed')

  local range = { start = { line = 23, character = 36 }, ['end'] = { line = 23, character = 36 } }
  local actions = request('textDocument/codeAction', 23, 36, { range = range, context = { diagnostics = {} } })
  must(#actions == 1, 'the mistake has one fix')
  vim.lsp.util.apply_workspace_edit(actions[1].edit, 'utf-16')
  wait('the fix removes the mistake', function()
    return #vim.diagnostic.get(0) == 0
  end)

  local edit = request('textDocument/rename', 16, 8, { newName = 'frontend' })
  vim.lsp.util.apply_workspace_edit(edit, 'utf-16')
  local lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
  must(lines[17] == '  - id: frontend', 'the resource is renamed: ' .. lines[17])
  say('renamed')

  local hover = request('textDocument/hover', 14, 36)
  must(hover.contents.value:find('availableReplicas: int', 1, true), 'hover shows the type')
  say('hovered')

  vim.cmd('write')
  vim.lsp.stop_client(client)
  wait('the server stopped', function()
    return vim.lsp.client_is_stopped(client)
  end)
end)
must(ok, tostring(problem))
say('done')
report:close()
vim.cmd('qall!')
