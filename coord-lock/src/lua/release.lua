-- Ends a claim: gives up its place in the queue, and if it has the lock, passes that on. Touches
-- nothing of anybody else. An empty queue costs one call.
-- KEYS   as queue.lua says
-- ARGV   as queue.lua says, then `token`, or `fence` to end the grant that has it: then the token
--        stands for that fence
-- Reply  1 freed, 0 nobody has the lock, -1 somebody else has it

local held, foreign = lease_read(KEYS[1])
if foreign then return foreign end
local waiting = redis.pcall('ZRANGE', KEYS[3], 0, 0)
if lease_refused(waiting) then return waiting end
local mine = held and held[ARGV[5]] == ARGV[1]

if not waiting[1] then
  if mine then redis.call('DEL', KEYS[1]) end
else
  foreign = queue_foreign()
  if foreign then return foreign end
  -- Whoever took an offer as it was still has its place.
  queue_leave(mine and held.token or ARGV[1])
  if mine then queue_pass_on() end
end
if mine then return 1 end
return held and -1 or 0
