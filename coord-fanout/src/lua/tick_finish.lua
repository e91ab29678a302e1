-- Finishes a tick, only for the one who has it: from here on its instants are done, and the lock
-- is the cooldown until shortly before the next one.
-- KEYS   the lock, the record beside it, the last tick
-- ARGV   token, fence, the tick's newest instant, end of the cooldown in ms, life of a last tick
-- Reply  1 finished, also by an earlier call that got no answer; 0 it is another's or nobody's

local token, fence, instant, kept_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local done = 'done:' .. fence .. ':' .. instant
local value = redis.pcall('GET', KEYS[1])
if lease_refused(value) then return value end
local last = redis.pcall('GET', KEYS[3])
if lease_refused(last) then return last end

if value == token .. ':' .. fence then
  local set = redis.pcall('SET', KEYS[3], instant, 'PX', kept_ms)
  if lease_refused(set) then return set end
  local time = redis.call('TIME')
  local left_ms = ARGV[4] - time[1] * 1000 - math.floor(time[2] / 1000)
  -- What is left of the lease is shorter than nothing when the next tick is due already.
  if left_ms <= 0 then
    redis.call('DEL', KEYS[1])
    return 1
  end
  set = redis.pcall('SET', KEYS[1], done, 'PX', string.format('%.0f', left_ms))
  return lease_refused(set) and set or 1
end
if value == done then return 1 end
-- The cooldown of an earlier call may be over. Nobody was granted a tick since, and ours is the
-- last one, so it was this one that finished it.
if not value and last == instant and lease_last_fence(KEYS[2]) == fence then return 1 end
return 0
