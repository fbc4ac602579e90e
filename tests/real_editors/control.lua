-- Lets a test run Lua in a Neovim: one JSON line with {code, args} each way, through a socket at $CONTROL_SOCKET.
-- What the person would be asked by `vim.ui.select` is answered with the next of the words in `_G.picks`.
local server = vim.uv.new_pipe()
server:bind(vim.env.CONTROL_SOCKET)

_G.notes = {}
vim.notify = function(text)
  table.insert(_G.notes, text)
end
vim.ui.select = function(items, options, done)
  local names = vim.tbl_map(options.format_item or tostring, items)
  local word = table.remove(_G.picks, 1)
  for number, name in ipairs(names) do
    if name:find(word, 1, true) then
      return done(items[number], number)
    end
  end
  table.insert(_G.notes, "nothing to pick in " .. vim.inspect(names))
end

local function run(line)
  local call = vim.json.decode(line)
  local code = assert(load(call.code))
  local is_done, result = pcall(code, unpack(call.args))
  return vim.json.encode({ ok = is_done, result = result == nil and vim.NIL or result }) .. "\n"
end

server:listen(1, function()
  local peer, rest = vim.uv.new_pipe(), ""
  server:accept(peer)
  peer:read_start(vim.schedule_wrap(function(_, data)
    rest = rest .. (data or "")
    local line, after = rest:match("^(.-)\n(.*)$")
    if line then
      rest = after
      peer:write(run(line))
    end
  end))
end)
