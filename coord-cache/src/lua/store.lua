-- Stores a loaded value if what it was loaded for is still there, and tells those who wait for it.
-- KEYS   value, mark
-- ARGV   the head that the present value must have, value, ttl_ms, channel, the verb that
--        publishes, the head of the mark to remove or ''
-- Reply  1 stored, also by an earlier call of the same; 0 something else is there now, or nothing

local head = redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if type(head) == 'table' then return head end
local stored = 0
if head == ARGV[1] then
  local set = redis.pcall('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  if set.err then return set end
  stored = 1
elseif head == string.sub(ARGV[2], 1, #ARGV[1]) then
  stored = 1
end
if ARGV[6] ~= '' and redis.pcall('GET', KEYS[2]) == ARGV[6] then redis.call('DEL', KEYS[2]) end
-- A message may be lost without harm, so also one that may not be sent.
redis.pcall(ARGV[5], ARGV[4], '')
return stored
