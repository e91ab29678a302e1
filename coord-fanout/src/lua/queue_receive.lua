-- Makes due messages ready, takes over deliveries that were not settled in time, and takes new
-- messages.
-- KEYS: ready stream, delayed set.
-- ARGV: consumer group, consumer, most to take, visibility in ms, most to make ready,
--   where to look for overdue deliveries, or '' not to look.
-- Returns: ms until the next delayed message is due, or -1; where to look on, '0-0' for the end,
--   '' if it was not looked; the deliveries taken over as {entry, fields, times delivered}; the
--   new ones as {entry, fields}.
local ready, delayed = KEYS[1], KEYS[2]
local consumers, consumer, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local visibility, most_due, cursor = ARGV[4], ARGV[5], ARGV[6]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The group is missing where the stream was made or emptied by hand.
local function in_group(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    redis.call('XGROUP', 'CREATE', ready, consumers, '0', 'MKSTREAM')
    return redis.call(...)
  end
  return reply
end

local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, most_due)
if redis.call('EXISTS', ready) == 0 then
  redis.call('XGROUP', 'CREATE', ready, consumers, '0', 'MKSTREAM')
end
if #due > 0 then
  -- Deletes nothing, see queue_settle.
  redis.call('XDEL', ready, '0-0')
end
for _, packed in ipairs(due) do
  local id, group, attempts, body, _, trace = cmsgpack.unpack(packed)
  -- A message of an earlier version, or of none, has no trace.
  if trace and trace ~= '' then
    redis.call('XADD', ready, '*', 'i', id, 'g', group, 'n', attempts, 'b', body, 't', trace)
  else
    redis.call('XADD', ready, '*', 'i', id, 'g', group, 'n', attempts, 'b', body)
  end
  redis.call('ZREM', delayed, packed)
end

local overdue = {}
if cursor ~= '' then
  local found = in_group('XAUTOCLAIM', ready, consumers, consumer, visibility, cursor,
    'COUNT', most)
  cursor = found[1]
  for _, entry in ipairs(found[2]) do
    -- Redis 6.2 lists an entry that was deleted by hand as nil.
    if entry then
      local pending = redis.call('XPENDING', ready, consumers, entry[1], entry[1], 1)
      overdue[#overdue + 1] = {entry[1], entry[2], pending[1][4]}
    end
  end
end

local new = {}
if #overdue < most then
  local read = in_group('XREADGROUP', 'GROUP', consumers, consumer,
    'COUNT', most - #overdue, 'STREAMS', ready, '>')
  if read then
    new = read[1][2]
  end
end

local wait = -1
local next_due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
if next_due[2] then
  wait = math.max(0, next_due[2] - now)
end
return {wait, cursor, overdue, new}
