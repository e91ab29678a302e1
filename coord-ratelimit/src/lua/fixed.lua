-- A fixed window on one key, opened by the first permit in it.
--   key    `start_us:used`
--   ARGV   permits, quota, window_us; negative permits give back
-- It leaves fits, value and expire_us (what to write if all fit, and its end), healed (what to
-- write if this one does not), and the level as it was found: x, y, z.
local permits, quota, window_us = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
local start, used = now, 0
local stored = redis.pcall('GET', key)
if stored then
  if type(stored) ~= 'string' then return stored end
  start, used = string.match(stored, '^(%d+):(%d+)$')
  -- A counter of ours is at most the largest quota.
  if not start or start + 0 > 9007199254740991 or used + 0 > 1e9 then
    return {err = 'WRONGTYPE ' .. key .. ' holds something else than a fixed window'}
  end
  start, used = start + 0, used + 0
  if start > now then
    -- The clock went back: the window begins anew, so that it ends within its length.
    start = now
    healed = string.format('%.0f:%.0f', start, used)
  elseif now - start >= window_us then
    start, used = now, 0
  end
end
x, y, z = now - start, used, 0
used = used + permits
fits = permits < 0 or used <= quota
if fits and used > 0 then value = string.format('%.0f:%.0f', start, used) end
expire_us = start + window_us
