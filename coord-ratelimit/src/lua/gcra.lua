-- GCRA on one key: `us` and `part` say how far ahead of now the limit is drawn upon, in whole
-- microseconds and `parts`ths of one. Nothing is multiplied here, so nothing exceeds 2^53.
--   key    `tat_us`, or `tat_us:part:parts` when it is no whole microsecond
--   ARGV   cost_us, cost_part, capacity_us, capacity_part, parts; a negative cost gives back
-- It leaves fits, value and expire_us (what to write if all fit, and its end), healed (what to
-- write if this one does not), and the level as it was found: x, y, z.
local parts = ARGV[at + 4]
local us, part = 0, 0
local stored = redis.pcall('GET', key)
if stored then
  if type(stored) ~= 'string' then return stored end
  local tat, of = stored, nil
  if string.find(stored, '%D') then tat, part, of = string.match(stored, '^(%d+):(%d+):(%d+)$') end
  if not tat or tat == '' or tat + 0 > 9007199254740991
    or of and (of + 0 > 1e9 or part + 0 >= of + 0) then
    return {err = 'WRONGTYPE ' .. key .. ' holds something else than a limit by GCRA'}
  end
  us, part = tat - now, part + 0
  -- Written under another quota: rounded up, at most a microsecond to the subject's cost.
  if of and of ~= parts then us, part = us + 1, 0 end
  if us < 0 then us, part = 0, 0 end
end
parts = parts + 0
local capacity_us, capacity_part = ARGV[at + 2] + 0, ARGV[at + 3] + 0
-- Further ahead than a full burst: the clock went back, or the burst was lowered.
if us > capacity_us or us == capacity_us and part > capacity_part then
  us, part = capacity_us, capacity_part
  healed = string.format('%.0f:%.0f:%.0f', now + us, part, parts)
end
x, y, z = us, part, 0
us, part = us + ARGV[at], part + ARGV[at + 1]
if part >= parts then us, part = us + 1, part - parts end
fits = us < capacity_us or us == capacity_us and part <= capacity_part
if us < 0 then us, part = 0, 0 end
if not fits then us, part = x, y end
local until_us = now + us
if part > 0 then
  value = string.format('%.0f:%.0f:%.0f', until_us, part, parts)
  until_us = until_us + 1
elseif us > 0 then
  value = until_us
end
expire_us = until_us
