-- Stores entries, whatever is there.
-- KEYS   values
-- ARGV   for each key its value, then its ttl_ms
-- Reply  how many were stored

for index, key in ipairs(KEYS) do
  local set = redis.pcall('SET', key, ARGV[2 * index - 1], 'PX', ARGV[2 * index])
  -- Memory may end in the middle: what is stored stays, and the caller learns that not all is.
  if set.err then return set end
end
return #KEYS
