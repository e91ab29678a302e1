-- Reads the entry, or marks it as being filled: what no caller can read counts as nothing.
-- KEYS   value
-- ARGV   placeholder, fill_ms for which it stands, the unreadable value to replace or ''
-- Reply  nil: marked; else the value, and its PTTL in ms

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then return value end
if value and (ARGV[3] == '' or value ~= ARGV[3]) then
  return { value, redis.call('PTTL', KEYS[1]) }
end
local set = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if set.err then return set end
return false
