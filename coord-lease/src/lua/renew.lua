-- Renews leases, each only if it is still the caller's.
-- KEYS   the key and the record of each
-- ARGV   the value `token:fence` and the TTL in ms of each
-- Reply  for each: 1 renewed, 0 gone, -1 held by another, -2 not a lease

local replies = {}
for index = 1, #KEYS, 2 do
  local key, value, ttl_ms = KEYS[index], ARGV[index], ARGV[index + 1]
  local found = redis.pcall('GET', key)
  if not found then
    replies[#replies + 1] = 0
  elseif type(found) ~= 'string' then
    replies[#replies + 1] = -2
  elseif found ~= value then
    replies[#replies + 1] = -1
  else
    local refused = lease_extend(key, KEYS[index + 1], ttl_ms)
    if refused then return refused end
    replies[#replies + 1] = 1
  end
end
return replies
