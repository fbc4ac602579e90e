-- Semel in a plain Neovim (0.10 or newer): one file, no plugin. `semel acp --print neovim` prints the line that loads it.
--
-- It is a client of the Agent Client Protocol, version 1. It starts `semel acp` and shows each session in two buffers:
-- the transcript, which only this file writes, and the prompt below it, which only the person writes. The transcript is
-- a list of rows: a message, a thought, a tool call, a plan, a notice. A row keeps its place; what is new in it is
-- added or replaced there, so no update moves a cursor. A window whose cursor is on the last line follows what comes.
--
-- What comes from the agent is drawn at most once in DRAW_INTERVAL_MS, however many messages that are.

if vim.fn.has("nvim-0.10") == 0 then
  error("Semel's client needs Neovim 0.10 or newer")
end

local M = {}
local api, uv = vim.api, vim.uv

local DRAW_INTERVAL_MS = 30
local DRAW_BUDGET_NS = 15e6 -- how long messages are taken before keys get their turn
local STDERR_LINES = 10 -- shown of what an agent wrote to stderr, if it ends
local METHOD_NOT_FOUND, INTERNAL_ERROR, REQUEST_CANCELLED = -32601, -32603, -32800
local namespace = api.nvim_create_namespace("semel")

local config = { command = { "semel", "acp" }, layout = "botright vsplit", prompt_lines = 6 }
local views = {} -- the open sessions, by id
local peer -- the running agent; nil if none runs

local HEADERS = { user = "You", other = "User", agent = "Agent", thought = "Thinking", notice = "Notice", plan = "Plan" }
local HIGHLIGHTS = {
  session = "Comment",
  user = "Title",
  other = "Title",
  agent = "Identifier",
  thought = "Comment",
  notice = "WarningMsg",
  plan = "Todo",
  tool = "Function",
}
local CHUNKS = { user_message_chunk = "other", agent_message_chunk = "agent", agent_thought_chunk = "thought" }
local PLAN_MARKS = { completed = "[x]", in_progress = "[>]", pending = "[ ]" }

local function tell(text, level)
  vim.notify("semel: " .. text, level or vim.log.levels.INFO)
end

-- ---------------------------------------------------------------- rows of a transcript

local View = {}
View.__index = View

local function write(buf, change)
  vim.bo[buf].modifiable = true
  change()
  vim.bo[buf].modifiable = false
end

local function row_start(view, row)
  return api.nvim_buf_get_extmark_by_id(view.buf, namespace, row.mark, {})[1]
end

local function set_mark(view, row, line)
  local options = { id = row.mark, line_hl_group = HIGHLIGHTS[row.kind] }
  row.mark = api.nvim_buf_set_extmark(view.buf, namespace, line, 0, options)
end

--- Add a row at the end. `lines`: its first line is the header.
function View:add_row(row, lines)
  local count = api.nvim_buf_line_count(self.buf)
  write(self.buf, function()
    if #self.rows == 0 then
      api.nvim_buf_set_lines(self.buf, 0, -1, false, lines)
      count = -1
    else
      api.nvim_buf_set_lines(self.buf, count, count, false, vim.list_extend({ "" }, lines))
    end
  end)
  row.lines, row.count = lines, #lines
  set_mark(self, row, count + 1)
  self.rows[#self.rows + 1] = row
  if row.id then
    self.by_id[row.id] = row
  end
  return row
end

--- Replace the lines of a row that differ.
function View:replace_lines(row, lines)
  local old, first, last = row.lines, 0, 0
  while first < #old and first < #lines and old[first + 1] == lines[first + 1] do
    first = first + 1
  end
  while last < #old - first and last < #lines - first and old[#old - last] == lines[#lines - last] do
    last = last + 1
  end
  if first == #old and first == #lines then
    return
  end
  local start = row_start(self, row)
  write(self.buf, function()
    local changed = vim.list_slice(lines, first + 1, #lines - last)
    api.nvim_buf_set_lines(self.buf, start + first, start + #old - last, false, changed)
  end)
  row.lines, row.count = lines, #lines
  set_mark(self, row, start)
end

function View:append_text(row, text)
  local lines = vim.split(text, "\n", { plain = true })
  local last = row_start(self, row) + row.count - 1
  write(self.buf, function()
    api.nvim_buf_set_text(self.buf, last, -1, last, -1, lines)
  end)
  row.count = row.count + #lines - 1
end

--- Begin a text. `id`: under which more of it may come.
function View:begin_text(kind, id)
  return self:add_row({ kind = kind, id = id, parts = {} }, { HEADERS[kind], "" })
end

function View:add_text(kind, text)
  self:append_text(self:begin_text(kind), text)
end

--- Draw what was taken since the last time.
function View:draw()
  for row in pairs(self.changed) do
    if row.parts then
      self:append_text(row, table.concat(row.parts))
      row.parts = {}
    else
      self:replace_lines(row, row.kind == "plan" and self.plan_lines(row) or self:tool_lines(row))
    end
  end
  self.changed = {}
end

-- ---------------------------------------------------------------- what ACP's content looks like

local function content_text(block)
  if block.type == "text" then
    return block.text or ""
  elseif block.type == "resource_link" then
    return block.uri or ""
  elseif block.type == "resource" then
    return vim.tbl_get(block, "resource", "text") or vim.tbl_get(block, "resource", "uri") or ""
  end
  return ("[%s %s]"):format(block.type or "content", block.mimeType or "")
end

local function diff_text(part)
  local compare = vim.text and vim.text.diff or vim.diff
  return part.path .. "\n" .. compare(part.oldText or "", part.newText or "", { ctxlen = 3 })
end

local function part_text(part)
  if part.type == "content" then
    return content_text(part.content or {})
  elseif part.type == "diff" then
    return diff_text(part)
  end
  return ("[%s]"):format(part.type)
end

--- The command that a tool call runs, unless its title names it.
local function command_lines(call)
  local command = type(call.rawInput) == "table" and call.rawInput.command
  if type(command) ~= "string" or (call.title or ""):find(command, 1, true) then
    return {}
  end
  return vim.split("$ " .. command, "\n", { plain = true })
end

function View:tool_lines(row)
  local call = row.call
  local lines = { ("[%s] %s"):format(call.status or "pending", (call.title or "tool"):gsub("\n", " ")) }
  vim.list_extend(lines, command_lines(call))
  for _, place in ipairs(call.locations or {}) do
    lines[#lines + 1] = place.path .. (place.line and ":" .. place.line or "")
  end
  for _, part in ipairs(call.content or {}) do
    vim.list_extend(lines, vim.split((part_text(part):gsub("\n$", "")), "\n", { plain = true }))
  end
  for _, number in ipairs(row.asks or {}) do
    lines[#lines + 1] = ("  (%d) %s"):format(number, self.options[number].name)
  end
  return lines
end

function View.plan_lines(row)
  local lines = { HEADERS.plan }
  for _, entry in ipairs(row.entries) do
    lines[#lines + 1] = ("%s %s"):format(PLAN_MARKS[entry.status] or "[ ]", (entry.content or ""):gsub("\n", " "))
  end
  return lines
end

-- ---------------------------------------------------------------- updates

function View:take_chunk(kind, update)
  local id = update.messageId and kind .. update.messageId
  local last = self.rows[#self.rows]
  local row = id and self.by_id[id] or (not id and last.kind == kind and last.parts and last) or nil
  row = row or self:begin_text(kind, id)
  row.parts[#row.parts + 1] = content_text(update.content or {})
  self.changed[row] = true
end

function View:find_tool(call)
  local row = self.by_id["tool" .. call.toolCallId]
  if not row then
    row = { kind = "tool", id = "tool" .. call.toolCallId, call = {} }
    self:add_row(row, { "" })
  end
  for name, value in pairs(call) do
    row.call[name] = value
  end
  self.changed[row] = true
  return row
end

--- A plan that comes again in the same turn replaces the one before.
function View:take_plan(update)
  if not self.plan then
    self.plan = self:add_row({ kind = "plan" }, { HEADERS.plan })
  end
  self.plan.entries = update.entries or {}
  self.changed[self.plan] = true
end

function View:take_notice(update)
  self:add_text("notice", (update.title or "") .. (update.description and "\n" .. update.description or ""))
end

local UPDATES = {
  tool_call = View.find_tool,
  tool_call_update = View.find_tool,
  plan = View.take_plan,
  notice = View.take_notice,
  session_info_update = function(view, update)
    view.title = update.title or view.title
  end,
  usage_update = function(view, update)
    view.usage = ("%d of %d tokens"):format(update.used or 0, update.size or 0)
  end,
  current_mode_update = function(view, update)
    (view.modes or {}).currentModeId = update.currentModeId
  end,
  config_option_update = function(view, update)
    view.settings = update.configOptions
  end,
}

function View:take_update(update)
  local kind = CHUNKS[update.sessionUpdate]
  if kind then
    self:take_chunk(kind, update)
    self.plan = kind ~= "other" and self.plan or nil
  elseif UPDATES[update.sessionUpdate] then
    UPDATES[update.sessionUpdate](self, update)
  end
end

-- ---------------------------------------------------------------- the connection

local function send(message)
  message.jsonrpc = "2.0"
  if peer then
    pcall(peer.process.write, peer.process, vim.json.encode(message) .. "\n") -- if it has just ended, `take_end` follows
  end
end

--- Send a request. `done(result, error)` is called with its answer; if the agent ends or has ended, with an error.
local function request(method, params, done)
  if not peer then
    done(nil, { message = "The agent has ended. The next prompt starts it again." })
    return
  end
  peer.number = peer.number + 1
  peer.waiting[peer.number] = done
  send({ id = peer.number, method = method, params = params })
end

local function take_answer(message)
  local done = peer.waiting[message.id]
  peer.waiting[message.id] = nil
  if done then
    done(message.result, message.error)
  end
end

--- Ask the person: each option gets a number that is never used again in this session.
local function take_question(message)
  local params = message.params
  local view = views[params.sessionId]
  if not view then -- "cancelled" would be an answer, and others may still give theirs
    send({ id = message.id, error = { code = INTERNAL_ERROR, message = "the session is not open here" } })
    return
  end
  local row = view:find_tool(params.toolCall)
  row.asks = row.asks or {}
  for _, option in ipairs(params.options) do
    view.options[#view.options + 1] = { id = option.optionId, name = option.name, request = message.id, row = row }
    row.asks[#row.asks + 1] = #view.options
  end
  view.questions[message.id] = row
  tell("a question: " .. (params.toolCall.title or "may a tool run?"), vim.log.levels.WARN)
end

--- Take a question's options off the screen.
local function close_question(view, id)
  local row = view.questions[id]
  view.questions[id] = nil
  row.asks = vim.tbl_filter(function(number)
    return view.options[number].request ~= id
  end, row.asks)
  view.changed[row] = true
end

local function answer_question(view, id, answer)
  close_question(view, id)
  send(vim.tbl_extend("error", { id = id }, answer))
end

local function cancel_question(id)
  for _, view in pairs(views) do
    if view.questions[id] then
      answer_question(view, id, { error = { code = REQUEST_CANCELLED, message = "cancelled" } })
    end
  end
end

local function take_message(message)
  local params = message.params or {}
  if not message.method then
    take_answer(message)
  elseif message.method == "session/update" then
    if views[params.sessionId] then
      views[params.sessionId]:take_update(params.update)
    end
  elseif message.method == "session/request_permission" then
    take_question(message)
  elseif message.method == "$/cancel_request" then
    cancel_question(params.requestId)
  elseif message.id ~= nil then
    send({ id = message.id, error = { code = METHOD_NOT_FOUND, message = "Method not found: " .. message.method } })
  end
end

--- The windows whose cursor is on the last line of a transcript. One in which the person selects lines stays as it is.
local function find_following(view)
  local count = api.nvim_buf_line_count(view.buf)
  local selecting = vim.fn.mode():find("[vV\22]") and api.nvim_get_current_win()
  return vim.tbl_filter(function(win)
    return win ~= selecting and api.nvim_win_get_cursor(win)[1] == count
  end, vim.fn.win_findbuf(view.buf))
end

local function describe(view)
  local asks = next(view.questions) and "asks you" or view.prompts > 0 and "works" or view.ended or "waits for you"
  local mode = (view.modes or {}).currentModeId
  local words = { view.title or view.id, asks, mode or "", view.usage or "" }
  return table.concat(vim.tbl_filter(function(word)
    return word ~= ""
  end, words), " · ")
end

local function show_state(view)
  local text = " " .. describe(view):gsub("\n", " "):gsub("%%", "%%%%")
  for _, win in ipairs(vim.fn.win_findbuf(view.buf)) do
    if vim.wo[win].winbar ~= text then
      vim.wo[win][0].winbar = text
    end
  end
end

--- Do something that may change what is shown, and draw it.
local function draw_after(change)
  local following = {}
  for id, view in pairs(views) do
    following[id] = find_following(view)
  end
  change()
  for id, view in pairs(views) do
    view:draw()
    for _, win in ipairs(following[id] or {}) do
      api.nvim_win_set_cursor(win, { api.nvim_buf_line_count(view.buf), 0 })
    end
    show_state(view)
  end
end

local function drain(this)
  local lines, taken, started = this.lines, 0, uv.hrtime()
  this.lines, this.is_due, this.drawn_at = {}, false, uv.now()
  draw_after(function()
    while taken < #lines and peer == this and uv.hrtime() - started < DRAW_BUDGET_NS do
      taken = taken + 1
      local is_json, message = pcall(vim.json.decode, lines[taken], { luanil = { object = true, array = true } })
      local is_taken, problem = true, nil
      if is_json and type(message) == "table" then
        is_taken, problem = pcall(take_message, message)
      end
      if not is_taken then
        tell(problem, vim.log.levels.ERROR)
      end
    end
  end)
  if taken < #lines and peer == this then
    this.lines = vim.list_extend(vim.list_slice(lines, taken + 1), this.lines)
    this:draw_soon()
  end
end

--- Called while Neovim may be busy: only lines are split here.
local function take_output(this, data)
  local from = 1
  while true do
    local at = data:find("\n", from, true)
    if not at then
      break
    end
    this.rest[#this.rest + 1] = data:sub(from, at - 1)
    this.lines[#this.lines + 1] = table.concat(this.rest)
    this.rest, from = {}, at + 1
  end
  this.rest[#this.rest + 1] = data:sub(from)
  this:draw_soon()
end

local function take_end(this, result)
  if peer ~= this then
    return
  end
  while #this.lines > 0 do
    drain(this)
  end
  this.timer:close()
  peer = nil
  local words = { ("The agent has ended (exit code %d). The next prompt starts it again."):format(result.code) }
  local message = table.concat(vim.list_extend(words, this.stderr), "\n")
  draw_after(function()
    for _, view in pairs(views) do
      view.is_attached = false
      for id in pairs(view.questions) do
        close_question(view, id)
      end
      if view.prompts == 0 then
        view:add_text("notice", message)
      end
    end
    for _, done in pairs(this.waiting) do
      done(nil, { message = message })
    end
  end)
end

local function start_agent()
  local this = { number = 0, waiting = {}, lines = {}, rest = {}, stderr = {}, drawn_at = 0 }
  this.timer = uv.new_timer()
  function this:draw_soon()
    if not self.is_due then
      self.is_due = true
      local delay = math.max(0, self.drawn_at + DRAW_INTERVAL_MS - uv.now())
      self.timer:start(delay, 0, vim.schedule_wrap(function()
        drain(self)
      end))
    end
  end
  local options = {
    cwd = vim.fn.getcwd(),
    stdin = true,
    stdout = function(_, data)
      if data then
        take_output(this, data)
      end
    end,
    stderr = function(_, data)
      vim.list_extend(this.stderr, vim.split(data or "", "\n", { trimempty = true }))
      this.stderr = vim.list_slice(this.stderr, math.max(1, #this.stderr - STDERR_LINES + 1))
    end,
  }
  local has_started, process = pcall(vim.system, config.command, options, vim.schedule_wrap(function(result)
    take_end(this, result)
  end))
  if not has_started then
    tell(("%s cannot be started: %s"):format(config.command[1], process), vim.log.levels.ERROR)
    return
  end
  this.process = process
  peer = this
end

--- Call `done` as soon as the agent can be spoken to. `failed`: called if it has started, and cannot.
local function connect(done, failed)
  if peer and peer.is_ready then
    done()
    return
  end
  if not peer then
    start_agent()
  end
  if not peer then
    return
  end
  local this = peer
  this.starting = this.starting or {}
  this.starting[#this.starting + 1] = { done = done, failed = failed or function() end }
  if #this.starting > 1 then
    return
  end
  local params = {
    protocolVersion = 1,
    clientInfo = { name = "semel.nvim", title = "Neovim", version = "1" },
    clientCapabilities = { session = { notices = vim.empty_dict() } },
  }
  request("initialize", params, function(result, error)
    if error then
      tell(error.message, vim.log.levels.ERROR)
      if peer == this then
        this.process:kill("sigterm") -- the next attempt starts another one
      end
      for _, each in ipairs(this.starting) do
        each.failed()
      end
      return
    end
    this.is_ready = true
    this.is_semel = vim.tbl_get(result, "agentInfo", "name") == "semel"
    for _, each in ipairs(this.starting) do
      each.done()
    end
  end)
end

-- ---------------------------------------------------------------- windows

local function scratch(name, filetype)
  local buf = api.nvim_create_buf(true, true)
  api.nvim_buf_set_name(buf, name)
  vim.bo[buf].filetype = filetype
  vim.bo[buf].bufhidden = "hide"
  return buf
end

local function map(buf, modes, keys, action, description)
  vim.keymap.set(modes, keys, action, { buffer = buf, desc = "Semel: " .. description })
end

local function show(view)
  local win = vim.fn.win_findbuf(view.buf)[1]
  if win then
    api.nvim_set_current_win(win)
  else
    vim.cmd(config.layout)
    api.nvim_win_set_buf(0, view.buf)
    vim.wo[0][0].wrap, vim.wo[0][0].linebreak = true, true
    api.nvim_win_set_cursor(0, { api.nvim_buf_line_count(view.buf), 0 })
  end
  show_state(view)
  if not vim.fn.win_findbuf(view.input)[1] then
    vim.cmd(("belowright %dsplit"):format(config.prompt_lines))
    api.nvim_win_set_buf(0, view.input)
    vim.wo[0][0].winbar = " prompt: <CR> in normal mode or <C-s> sends"
    vim.wo[0][0].winfixheight = true
  end
  api.nvim_set_current_win(vim.fn.win_findbuf(view.input)[1])
end

local function clear(view)
  view.rows, view.by_id, view.changed, view.plan = {}, {}, {}, nil
  view.options, view.questions = view.options or {}, {}
  write(view.buf, function()
    api.nvim_buf_set_lines(view.buf, 0, -1, false, {})
  end)
  api.nvim_buf_clear_namespace(view.buf, namespace, 0, -1)
  view:add_row({ kind = "session" }, { ("Session %s in %s"):format(view.id, view.folder) })
end

--- Forget a session one of whose buffers is wiped out. The other one goes, too, as its name may be needed again.
local function forget(view)
  if views[view.id] == view then
    views[view.id] = nil
    vim.schedule(function()
      for _, buf in ipairs({ view.buf, view.input }) do
        if api.nvim_buf_is_valid(buf) then
          api.nvim_buf_delete(buf, { force = true })
        end
      end
    end)
  end
end

local function open_view(id, folder)
  if views[id] then
    return views[id]
  end
  local view = setmetatable({ id = id, folder = folder, prompts = 0 }, View)
  view.buf, view.input = scratch("semel://" .. id, "semel"), scratch(("semel://%s/prompt"):format(id), "semelprompt")
  vim.bo[view.buf].undolevels = -1 -- nobody undoes there, and each change would be kept
  views[id] = view
  clear(view)
  map(view.buf, "n", "<CR>", function()
    M.answer(api.nvim_get_current_line():match("^  %((%d+)%) "))
  end, "choose the option under the cursor")
  map(view.input, { "n", "i" }, "<C-s>", M.send_input, "send the prompt")
  map(view.input, "n", "<CR>", M.send_input, "send the prompt")
  for _, buf in ipairs({ view.buf, view.input }) do
    map(buf, "n", "<C-c>", M.cancel, "cancel the turn")
    api.nvim_create_autocmd("BufWipeout", { buffer = buf, callback = function()
      forget(view)
    end })
  end
  return view
end

--- The session whose buffer is the current one, else the one that was used last.
local function current_view()
  local buf = api.nvim_get_current_buf()
  for _, view in pairs(views) do
    if view.buf == buf or view.input == buf then
      M.last = view.id
    end
  end
  return views[M.last]
end

local function note_offers(view, result)
  view.modes, view.settings, view.is_attached = result.modes, result.configOptions, true
  M.last = view.id
end

-- ---------------------------------------------------------------- what a person can do

--- Let the person choose an item. `name`: returns what is shown for one. `done`: called with the chosen one.
local function choose(items, title, name, done)
  if #items == 0 then
    tell(("there is no %s to choose here"):format(title:lower()))
    return
  end
  vim.ui.select(items, { prompt = title, format_item = name }, function(item)
    if item ~= nil then
      done(item)
    end
  end)
end

--- Open a new session in the current folder.
function M.new()
  local folder = vim.fn.getcwd()
  connect(function()
    request("session/new", { cwd = folder, mcpServers = {} }, function(result, error)
      if error then
        tell(error.message, vim.log.levels.ERROR)
        return
      end
      local view = open_view(result.sessionId, folder)
      note_offers(view, result)
      show(view)
    end)
  end)
end

local function reload(view, done, failed)
  clear(view)
  local params = { sessionId = view.id, cwd = view.folder, mcpServers = {} }
  request("session/load", params, function(result, error)
    if views[view.id] ~= view then
      return
    elseif error then
      view:add_text("notice", error.message)
      if failed then
        failed()
      end
      return
    end
    note_offers(view, result)
    if done then
      done()
    end
  end)
end

--- Call `done(session)` with each listed session until it returns true; at the end with nil.
local function each_session(folder, done, cursor)
  request("session/list", { cwd = folder, cursor = cursor }, function(result, error)
    if error then
      tell(error.message, vim.log.levels.ERROR)
      return
    end
    for _, session in ipairs(result.sessions) do
      if done(session) then
        return
      end
    end
    if result.nextCursor then
      each_session(folder, done, result.nextCursor)
    else
      done(nil)
    end
  end)
end

--- Open a session that there is. `folder`: its folder; it is looked up if it is not given.
function M.load(id, folder)
  connect(function()
    if folder then
      local view = open_view(id, folder)
      show(view)
      reload(view)
      return
    end
    each_session(nil, function(session)
      if not session then
        tell("there is no session " .. id, vim.log.levels.ERROR)
      elseif session.sessionId == id then
        M.load(id, session.cwd)
        return true
      end
    end)
  end)
end

--- Choose one of the sessions of the current folder. `is_all`: of all folders.
function M.sessions(is_all)
  local found = {}
  connect(function()
    each_session(not is_all and vim.fn.getcwd() or nil, function(session)
      found[#found + 1] = session
      if session then
        return
      end
      choose(found, "Session", function(one)
        return ("%s  %s  %s"):format((one.updatedAt or ""):sub(1, 16), one.title or "", one.sessionId)
      end, function(one)
        M.load(one.sessionId, one.cwd)
      end)
    end)
  end)
end

local function prompt(view, text)
  view:add_text("user", text)
  view.prompts, view.plan, view.ended = view.prompts + 1, nil, nil
  local params = { sessionId = view.id, prompt = { { type = "text", text = text } } }
  request("session/prompt", params, function(result, error)
    view.prompts = view.prompts - 1
    if views[view.id] ~= view then
      return
    elseif error then
      view:add_text("notice", error.message)
    elseif result.stopReason == "cancelled" then
      view.ended = "cancelled"
    elseif result.stopReason ~= "end_turn" then
      view:add_text("notice", "The turn has ended: " .. result.stopReason)
    end
  end)
end

--- Send a prompt to a session. If the agent had ended, it is started and the session loaded first; if that fails, the
--- text is put into the prompt's buffer.
function M.send(text, view)
  view = view or current_view()
  if not view or text:match("^%s*$") then
    tell(view and "the prompt is empty" or "open a session first (:Semel)")
    return false
  end
  local function give_back()
    api.nvim_buf_set_lines(view.input, 0, 0, false, vim.split(text, "\n", { plain = true }))
  end
  connect(function()
    draw_after(function()
      if view.is_attached then
        prompt(view, text)
      else
        reload(view, function()
          prompt(view, text)
        end, give_back)
      end
    end)
  end, give_back)
  return peer ~= nil
end

--- Send what is written in the prompt's buffer.
function M.send_input()
  local view = current_view()
  local text = table.concat(api.nvim_buf_get_lines(view.input, 0, -1, false), "\n")
  if M.send(text, view) then
    api.nvim_buf_set_lines(view.input, 0, -1, false, {})
  end
end

--- Stop the turn that answers the session's prompt. Semel closes the questions of a turn that is stopped; those of
--- another person's turn stay. For other agents, all questions are answered here, as ACP demands.
function M.cancel()
  local view = current_view()
  if not view or not peer then
    return
  end
  send({ method = "session/cancel", params = { sessionId = view.id } })
  draw_after(function()
    for id in pairs(peer.is_semel and {} or view.questions) do
      answer_question(view, id, { result = { outcome = { outcome = "cancelled" } } })
    end
  end)
end

--- Choose the option with this number.
function M.answer(number)
  local view = current_view()
  local option = view and view.options[tonumber(number)]
  if not option then
    tell("put the cursor on an option, or name its number")
  elseif not view.questions[option.request] then
    tell("that request is gone")
  else
    draw_after(function()
      local outcome = { outcome = "selected", optionId = option.id }
      answer_question(view, option.request, { result = { outcome = outcome } })
    end)
  end
end

local function tell_error(_, error)
  if error then
    tell(error.message, vim.log.levels.ERROR)
  end
end

local function choose_value(view, setting)
  local values = setting.options or { { value = true, name = "on" }, { value = false, name = "off" } }
  choose(values, setting.name, function(one)
    return (one.value == setting.currentValue and "* " or "  ") .. one.name
  end, function(one)
    local params = { sessionId = view.id, configId = setting.id, value = one.value }
    request("session/set_config_option", params, function(result, error)
      tell_error(nil, error)
      view.settings = result and result.configOptions or view.settings
    end)
  end)
end

--- Choose the session's mode, model or another option of its agent.
function M.set()
  local view = current_view()
  if not view or not view.is_attached then
    tell("open a session first (:Semel)")
  elseif view.settings then
    choose(view.settings, "Option", function(one)
      return ("%s: %s"):format(one.name, tostring(one.currentValue))
    end, function(one)
      choose_value(view, one)
    end)
  else
    choose((view.modes or {}).availableModes or {}, "Mode", function(one)
      return one.name
    end, function(one)
      request("session/set_mode", { sessionId = view.id, modeId = one.id }, tell_error)
    end)
  end
end

--- Put lines of the current file into the prompt, with their place.
function M.quote(first, last)
  local view = current_view()
  if not view then
    tell("open a session first (:Semel)")
    return
  end
  local place = ("%s:%d-%d"):format(api.nvim_buf_get_name(0), first, last)
  local quoted = { place, "```" .. vim.bo.filetype }
  vim.list_extend(quoted, api.nvim_buf_get_lines(0, first - 1, last, false))
  vim.list_extend(quoted, { "```", "" })
  api.nvim_buf_set_lines(view.input, -1, -1, false, quoted)
  show(view)
end

--- Return what a session's transcript shows: a list of {kind, header, text}, read from its buffer.
function M.rows(id)
  local view = views[id or M.last]
  return vim.tbl_map(function(row)
    local start = row_start(view, row)
    local lines = api.nvim_buf_get_lines(view.buf, start, start + row.count, false)
    return { kind = row.kind, header = lines[1], text = table.concat(lines, "\n", 2) }
  end, view.rows)
end

--- Return what a session's state line says.
function M.state(id)
  return describe(views[id or M.last])
end

local COMMANDS = {
  new = M.new,
  cancel = M.cancel,
  set = M.set,
  sessions = function(call)
    M.sessions(call.bang)
  end,
  load = function(_, rest)
    M.load(rest)
  end,
  send = function(_, rest)
    M.send(rest)
  end,
  answer = function(_, rest)
    M.answer(rest)
  end,
  quote = function(call)
    M.quote(call.line1, call.line2)
  end,
}

local function run_command(call)
  local name, rest = call.args:match("^(%S*)%s*(.*)$")
  if name == "" then
    local view = current_view()
    if view then
      show(view)
    else
      M.new()
    end
  elseif COMMANDS[name] then
    COMMANDS[name](call, rest)
  else
    tell("there is no `:Semel " .. name .. "`", vim.log.levels.ERROR)
  end
end

--- Define `:Semel`, and `require("semel")` for mappings. `options`: command, the agent's command; layout, the command
--- that opens its window; prompt_lines, the height of the prompt.
function M.setup(options)
  package.loaded.semel = M
  config = vim.tbl_extend("force", config, options or {})
  api.nvim_create_user_command("Semel", run_command, {
    nargs = "*",
    bang = true,
    range = true,
    desc = "Talk to an agent through Semel",
    complete = function(typed)
      local names = vim.tbl_filter(function(name)
        return vim.startswith(name, typed)
      end, vim.tbl_keys(COMMANDS))
      table.sort(names)
      return names
    end,
  })
  return M
end

return M
