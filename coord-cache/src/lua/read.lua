-- Reads entries with the time they have left; writes nothing.
-- KEYS   values
-- Reply  for each key its value or nil, then its PTTL in ms

local replies = {}
for index, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  replies[2 * index - 1] = value
  replies[2 * index] = redis.call('PTTL', key)
end
return replies
