-- Ends a lease, only if it is the one that is meant. The record stays, for the next fence.
-- KEYS   key, record
-- ARGV   'token' or 'fence', and the one it must have
-- Reply  {1} removed, {0} nothing is there, {-1, holder} another has it

local held, foreign = lease_read(KEYS[1])
if foreign then return foreign end
if not held then return {0} end
if held[ARGV[1]] ~= ARGV[2] then
  return {-1, lease_holder(KEYS[1], KEYS[2], held)}
end
local deleted = redis.pcall('DEL', KEYS[1])
if lease_refused(deleted) then return deleted end
return {1}
