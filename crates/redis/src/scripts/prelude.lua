-- What a script finds around it, put together once per machine: the globals, and functions that catch errors.
--
-- `G` is every script's environment, an empty table in front of `real`, where the globals are. Nothing that a script can reach
-- can be changed, so that the next script finds it as it was. `natives` are functions of ours.

local G, real, natives = ...
local error, type, tostring, getmetatable = error, type, tostring, getmetatable
local raw_pcall, raw_xpcall, raw_setmetatable = pcall, xpcall, setmetatable
local create, resume = coroutine.create, coroutine.resume
local seen, caught, enter, switch = natives.seen, natives.caught, natives.enter, natives.switch

local function readonly()
  error('Attempt to modify a readonly table', 2)
end

local function absent(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local proxies = {}

-- An empty table in front of one that must not change. What is written into it all the same is removed when the script ends.
local function protect(table)
  local proxy = {}
  raw_setmetatable(proxy, { __index = table, __newindex = readonly, __metatable = false })
  proxies[#proxies + 1] = proxy
  return proxy
end

-- Errors, and ends of runs, which nothing catches.

local function after_pcall(ok, ...)
  if ok then return true, ... end
  return false, caught((...))
end

function real.pcall(...)
  return after_pcall(raw_pcall(...))
end

local function after_xpcall(ok, ...)
  if ok then return true, ... end
  return false, seen((...))
end

function real.xpcall(f, handler)
  return after_xpcall(raw_xpcall(f, function(e) return handler(seen(e)) end))
end

-- What `resume` itself raises (more results than there is room for) passes through here, too: whoever watches has to know who executes.
local function after_step(before, whole, ...)
  switch(before)
  if not whole then error((...), 0) end
  return after_xpcall(...)
end

local function step(co, ...)
  enter()
  return after_step(switch(co), raw_pcall(resume, co, ...))
end

local function unwrap(ok, ...)
  if ok then return ... end
  local e = (...)
  error(e, type(e) == 'string' and 3 or 0)
end

local coroutines = natives.copy(coroutine)
coroutines.create = function(f)
  natives.check_coroutine(f)
  return create(f)
end
coroutines.resume = step
coroutines.wrap = function(f)
  natives.check_coroutine(f)
  local co = create(f)
  return function(...) return unwrap(step(co, ...)) end
end

-- Patterns: the matcher is ours, and counts its steps.

local strings = natives.copy(string)
local next_match, substitute = natives.next_match, natives.substitute
strings.find, strings.match, strings.rep = natives.find, natives.match, natives.rep

local function after_match(state, last, ...)
  state.at = last
  return ...
end

function strings.gmatch(s, pattern)
  natives.check_pattern(s, pattern, 'gmatch')
  local state = { at = 0 }
  return function()
    if not state.at then return nil end
    return after_match(state, next_match(s, pattern, state.at))
  end
end
strings.gfind = strings.gmatch

-- A replacement that is a function is called from here: what it raises passes through unchanged.
local function replaced(s, first, last, parts, replace, ...)
  local with = replace(...)
  if not with then
    with = strings.sub(s, first, last)
  elseif type(with) ~= 'string' and type(with) ~= 'number' then
    natives.fail('invalid replacement value (a ' .. type(with) .. ')')
  end
  parts[#parts + 1] = with
end

local function one(s, pattern, parts, replace, at, first, last, ...)
  if not first then return nil end
  parts[#parts + 1] = strings.sub(s, at, first - 1)
  replaced(s, first, last, parts, replace, ...)
  return first, last
end

function strings.gsub(s, pattern, replace, most)
  if type(replace) ~= 'function' then
    -- No call in the place of this one: an error would not find the script's line.
    local result, count = substitute(s, pattern, replace, most)
    return result, count
  end
  s = natives.check_pattern(s, pattern, 'gsub')
  most = natives.check_count(most, #s + 1)
  local anchored = strings.sub(pattern, 1, 1) == '^'
  local parts, at, from, count = {}, 1, 1, 0
  while count < most and from <= #s + 1 do
    local first, last = one(s, pattern, parts, replace, at, natives.match_at(s, pattern, from))
    if not first then break end
    count = count + 1
    at = last + 1
    from = at
    if last < first then
      parts[#parts + 1] = strings.sub(s, first, first)
      at, from = first + 1, first + 1
    end
    if anchored then break end
  end
  parts[#parts + 1] = strings.sub(s, at)
  return table.concat(parts), count
end

-- Tables. These two call whatever they are given from instructions, between which a run can be ended.

local tables = natives.copy(table)

local function check(t, f, name)
  if type(t) ~= 'table' then error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(t) .. ')', 3) end
  if type(f) ~= 'function' then error("bad argument #2 to '" .. name .. "' (function expected, got " .. type(f) .. ')', 3) end
end

function tables.foreach(t, f)
  check(t, f, 'foreach')
  for k, v in next, t do
    local result = f(k, v)
    if result ~= nil then return result end
  end
end

function tables.foreachi(t, f)
  check(t, f, 'foreachi')
  for i = 1, #t do
    local result = f(i, t[i])
    if result ~= nil then return result end
  end
end

-- The globals.

for _, name in ipairs { 'assert', 'error', 'ipairs', 'next', 'pairs', 'rawequal', 'rawget', 'select', 'tonumber', 'tostring', 'type', 'unpack', '_VERSION' } do
  real[name] = _G[name]
end
for _, name in ipairs { 'setmetatable', 'rawset', 'load', 'loadstring', 'collectgarbage', 'gcinfo' } do
  real[name] = natives[name]
end

function real.getmetatable(...)
  return getmetatable(...) or nil
end

local maths = natives.copy(math)
maths.random, maths.randomseed = natives.random, natives.randomseed

real._G = G
real.string = protect(strings)
real.table = protect(tables)
real.math = protect(maths)
real.coroutine = protect(coroutines)
real.os = protect { clock = natives.clock }
for _, name in ipairs { 'redis', 'cjson', 'cmsgpack', 'struct', 'bit' } do
  real[name] = protect(natives[name])
end
raw_setmetatable(real, { __index = absent })

-- While a library is loaded there is nothing but what registers its functions.
local loading = raw_setmetatable({ redis = protect(raw_setmetatable(natives.loading, { __index = absent })) }, { __index = absent })

local around = { __index = real, __newindex = readonly, __metatable = natives.about_globals(protect { __index = protect {}, __newindex = readonly }) }
raw_setmetatable(G, around)
proxies[#proxies + 1] = G

-- Methods of strings are those of the table above; who asks for their metatable gets another one.
local of_strings = getmetatable('')
of_strings.__index = strings
of_strings.__metatable = protect { __index = real.string }

local function choose(library)
  around.__index = library and loading or real
end

-- Runs a function, with two arguments if it is a library's; an error comes as its text.
local function run(f, keys, args)
  if keys then
    return raw_xpcall(function() return f(keys, args) end, natives.describe)
  end
  return raw_xpcall(f, natives.describe)
end

return run, choose, proxies
