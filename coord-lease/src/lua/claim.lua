-- Claims a lease that is free, or renews it if the same claim has it already.
-- KEYS   key, record
-- ARGV   token, ttl_ms, owner
-- Reply  {1, fence} claimed, {0, holder} held by another

local held, foreign = lease_read(KEYS[1])
if foreign then return foreign end
if not held then
  local fence, refused = lease_grant(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])
  if refused then return refused end
  return {1, fence}
end
if held.token ~= ARGV[1] then
  return {0, lease_holder(KEYS[1], KEYS[2], held)}
end
local refused = lease_extend(KEYS[1], KEYS[2], ARGV[2])
if refused then return refused end
return {1, held.fence}
