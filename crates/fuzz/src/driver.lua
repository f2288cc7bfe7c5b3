-- Calls functions with values at the edges, as the bytes of ARGV[1] say. ARGV[2] and on: the names of every function that a script can reach.
-- What comes back joins the values that later calls choose from, so that iterators, coroutines and loaded functions are called, too.

local bytes, at = ARGV[1], 0
local function take()
  at = at + 1
  return bytes:byte(at) or 0
end

local functions = {}
for i = 2, #ARGV do
  local place, name = ARGV[i]:match('^(.-)%.?([^.]+)$')
  functions[i - 1] = place == '' and _G[name] or _G[place][name]
end

local function deep(n)
  local t = {}
  for _ = 1, n do t = { t } end
  return t
end

local function filled(n, with)
  local t = {}
  for i = 1, n do t[i] = with or i end
  return t
end

local itself = {}
itself[1], itself.itself = itself, itself
local raising = setmetatable({}, {
  __index = function() error('index') end, __newindex = function() error({}) end, __call = function() error() end,
  __lt = function() error(nil) end, __le = error, __eq = error, __concat = error, __tostring = function() error('tostring') end, __len = error,
})
local obliging = setmetatable({}, {
  __index = function(_, k) return k end, __call = function(_, ...) return ... end, __lt = function() return true end,
  __concat = function() return 'x' end, __tostring = function() return 7 end, __unm = function() return {} end, __mode = 'kv',
})
local sparse = { [1] = 1, [2 ^ 30] = 1, [2 ^ 31 - 1] = 1, [-1] = 1, [2 ^ 53] = 1, [0.5] = 1 }
local powers = {}
for i = 0, 31 do powers[2 ^ i] = i end
local removed = filled(2000)
for i = 1, 1999 do removed[i] = nil end
local mixed = { 3, 'a', 1, {}, 'b', 2 }
local function lying() return true end
local function yielding(...) return coroutine.yield(...) end
local function recursing(...) return recursing and pcall(yielding, ...) end
local dead = coroutine.create(lying)
coroutine.resume(dead)
local suspended = coroutine.create(function() while true do coroutine.yield(1) end end)
coroutine.resume(suspended)
local many = string.rep('x', 100000)

local edges = {
  0, -0.0, 1, -1, 2, 3, 7, 16, 31, 32, 33, 63, 64, 99, 100, 127, 128, 255, 256, 7999, 8000, 8001, 65535, 65536, 1e6,
  2 ^ 31 - 1, 2 ^ 31, 2 ^ 31 + 1, -2 ^ 31, -2 ^ 31 - 1, -2 ^ 31 + 1, 2 ^ 32 - 1, 2 ^ 32, 2 ^ 32 + 1, 2 ^ 53, -2 ^ 53, 2 ^ 63, -2 ^ 63, 2 ^ 64, -2 ^ 64,
  1e308, -1e308, 1e-308, 1 / 0, -1 / 0, 0 / 0, 0.5, -0.5, 1.5, 2.5, 1e15, 123456789012345678,
  '', 'a', 'abc', ' 12 ', '0x10', '1e308', '1e999', '-0', 'nan', 'inf', '\0', 'a\0b', '\255', string.rep('\0', 300), string.rep('a', 300), many,
  string.rep('9', 400), string.rep('%', 51), string.rep('(', 40), string.rep('a?', 300), string.rep('()', 33), '%b', '%bxy', '%f', '%f[%w]', '[', '[^', '[]', '[a-', '[%',
  '[^]]', '.-', 'a*', '.-.-.-b', '%1', '(a)(%1)', '()%1', '^', '$', '^$', '%', '%d+', '[%z\1-\255]*', '(()', '((.)(.))*',
  '%d', '%5.2s', '%s', '%q', '%c', '%99.99f', '%-#+ 05.99d', '%.99g', '%.99e', '%100d', '%-+ #0-+ #0d', '%x', '%o', '%i', '%u', '%g', '%p', '%n', '%ld', '%', '%%', '%s%s%s%s%s%s%s',
  '>I8', '<i32', '>I33', '!16i4', '!3', '!0', 'c0', 'c', 'c99999999999', 's', 'bBhHlLTfd', 'xxxx', '>c0c0', 'I0', string.rep('b', 500),
  '[1,2,{"a":[null,true,1e5]}]', '{"a":', '[[[[[[[[', '"\\ud800"', '"\\u0000"', '1e', '-', string.rep('[', 1500), string.rep('{"a":', 300), 'nul', '[1]\0',
  '\145\145\145', '\221\255\255\255\255', '\198\255\255\255\255x', '\207\255\255\255\255\255\255\255\255', string.rep('\145', 700), '\129\192\1', '\203\127\248\0\0\0\0\0\0',
  'return 1', 'return ...', 'while', 'x = = 1', string.rep('return {', 300), string.rep('(', 300), '\27Lua', '#', 'function', 'return function(...) return ... end', '--[==[', '[=[]=',
  'get', 'set', 'nosuch', 'eval', 'collect', 'count', 'n', 'kv', '__index', '#',
  {}, { 1, 2, 3 }, { 'a', 'b' }, { n = 2 ^ 31 }, mixed, itself, deep(20), deep(1100), filled(300), filled(300, 'x'), filled(8200), filled(20, many), sparse, powers, removed,
  { __mode = 'k' }, { __index = {} }, { __metatable = false }, { err = 'x' }, { ok = 'y' }, { err = {} }, { [{}] = {} }, raising, obliging,
  lying, yielding, recursing, error, pcall, next, tostring, string.rep, coroutine.yield, function() end, function(a, b) return a > b end, function(...) return ... end,
  function() error({}) end, function() error('x', 2 ^ 31) end, coroutine.create(yielding), suspended, dead, coroutine.wrap(yielding),
  true, false, string, table, math, redis, cjson, cjson.null, _G, getmetatable(''), KEYS, ARGV,
}
local pool = {}
for i = 1, 400 do
  if edges[i] ~= nil then pool[#pool + 1] = edges[i] end
end
local first = #pool
-- One long text, many times: it takes the memory of one, and the time of many.
local huge = { string.rep('\0', 1e6), string.rep('a', 1e6), string.rep('1', 1e6) }
local references = { filled(1000, huge[1]), filled(1000, huge[2]), filled(7900, huge[3]), huge[1], huge[2], huge[3], string.rep('%s', 1000), string.rep('s', 1000) }

local function value()
  local kind = take()
  if kind < 20 then return nil end
  if kind > 250 then return references[take() % #references + 1] end
  return pool[(take() * 256 + take() + kind) % #pool + 1]
end

local function keep(_, ...)
  for i = 1, math.min(select('#', ...), 3) do
    local v = select(i, ...)
    if v ~= nil then
      local place = #pool < first + 64 and #pool + 1 or first + take() % 64 + 1
      pool[place] = v
    end
  end
end

-- More arguments than C's share of the stack takes.
local function spread(f, left, ...)
  if left == 0 then return f(...) end
  return spread(f, left - 1, value(), 1, 'x', {}, ...)
end

local operations = {
  function(a, b) return a + b end, function(a, b) return a % b end, function(a, b) return a ^ b end, function(a, b) return a .. b end,
  function(a, b) return a < b end, function(a, b) return a <= b end, function(a, b) return a == b end, function(a, b) return a[b] end,
  function(a, b) a[b] = b end, function(a) return #a end, function(a) return -a end, function(a, b) return a(b) end,
  function(a, b) local n = 0 for k, v in pairs(a) do n = n + 1 if n > 50 then break end a[k] = b end end,
  function(a, b) local n = 0 for i = a, b do n = n + 1 if n > 50 then break end end return n end,
  function(a, b) return a:upper(b) end, function(a, b) for k in a, b do return k end end,
}

while at < #bytes do
  local what = take()
  if what < 200 then
    local f = functions[(take() * 256 + take()) % #functions + 1]
    local count = take() % 6
    if what == 199 then keep(pcall(spread, f, 30))
    elseif what == 198 then keep(pcall(f, unpack(filled(4000 + take() * 15, value()))))
    elseif what > 190 then keep(coroutine.resume(coroutine.create(function(...) return f(...) end), value(), value()))
    elseif count == 0 then keep(pcall(f))
    elseif count == 1 then keep(pcall(f, value()))
    elseif count == 2 then keep(pcall(f, value(), value()))
    elseif count == 3 then keep(pcall(f, value(), value(), value()))
    elseif count == 4 then keep(pcall(f, value(), value(), value(), value()))
    else keep(pcall(f, value(), value(), value(), value(), value(), value())) end
  else
    keep(pcall(operations[take() % #operations + 1], value(), value()))
  end
end
return at
