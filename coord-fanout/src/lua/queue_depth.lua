-- Counts what is in the queue.
-- KEYS: ready stream, delayed set, number of waiting, dead letters.
-- ARGV: consumer group.
-- Returns ready, waiting, delayed, in flight, dead; and for how many ms the oldest ready message
--   has been ready, or -1 if there is none.
local ready, consumers = KEYS[1], ARGV[1]
local stored, in_flight, lag = redis.call('XLEN', ready), 0, -1
if redis.call('EXISTS', ready) == 1 then
  local last = '0-0'
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', ready)) do
    local facts = {}
    for i = 1, #group, 2 do
      facts[group[i]] = group[i + 1]
    end
    if facts.name == consumers then
      last, in_flight = facts['last-delivered-id'], facts.pending
    end
  end
  local oldest = redis.call('XRANGE', ready, '(' .. last, '+', 'COUNT', 1)[1]
  if oldest then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    lag = math.max(0, now - string.match(oldest[1], '^%d+'))
  end
end
return {stored - in_flight, tonumber(redis.call('GET', KEYS[3]) or 0),
  redis.call('ZCARD', KEYS[2]), in_flight, redis.call('XLEN', KEYS[4]), lag}
