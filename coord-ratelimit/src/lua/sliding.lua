-- A sliding window on one key: a counter for the current window, one for the window before it,
-- which counts by the part of it that the sliding window still covers.
--   key    `start_us:previous:current`
--   ARGV   permits, quota, window_us; negative permits give back
-- It leaves fits, value and expire_us (what to write if all fit, and its end), healed (what to
-- write if this one does not), and the level as it was found: x, y, z.
local permits, quota, window_us = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
local start, previous, current = now, 0, 0
local stored = redis.pcall('GET', key)
if stored then
  if type(stored) ~= 'string' then return stored end
  start, previous, current = string.match(stored, '^(%d+):(%d+):(%d+)$')
  -- A counter of ours is at most the largest quota.
  if not start or start + 0 > 9007199254740991 or math.max(previous, current) > 1e9 then
    return {err = 'WRONGTYPE ' .. key .. ' holds something else than a sliding window'}
  end
  start, previous, current = start + 0, previous + 0, current + 0
  if start > now then
    -- The clock went back: the window begins anew, so that it ends within its length.
    start = now
    healed = string.format('%.0f:%.0f:%.0f', start, previous, current)
  elseif now - start >= window_us then
    if now - start < 2 * window_us and current > 0 then
      start, previous, current = start + window_us, current, 0
    else
      start, previous, current = now, 0, 0
    end
  end
end
x, y, z = now - start, previous, current
local room = quota - current - permits
if permits < 0 then
  fits = true
elseif room < 0 then
  fits = false
else
  -- previous * left <= room * window_us, exactly: a product may exceed 2^53, so both are compared
  -- as a multiple of 2^22 and a rest. Counters are at most 10^9 and windows below 2^45.
  local left, unit = window_us - x, 4194304
  local left_rest, window_rest = left % unit, window_us % unit
  local low, high = previous * left_rest, room * window_rest
  local used_high = previous * ((left - left_rest) / unit) + math.floor(low / unit)
  local room_high = room * ((window_us - window_rest) / unit) + math.floor(high / unit)
  fits = used_high < room_high or used_high == room_high and low % unit <= high % unit
end
current = current + permits
if current < 0 then previous, current = math.max(0, previous + current), 0 end
if fits and previous + current > 0 then
  value = string.format('%.0f:%.0f:%.0f', start, previous, current)
end
expire_us = start + (current > 0 and 2 or 1) * window_us
