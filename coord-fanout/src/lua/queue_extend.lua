-- Extends deliveries by the visibility, counted from now, each only if it is still the current
-- one of its message.
-- KEYS: ready stream.
-- ARGV: consumer group, consumer; then two a delivery: entry, times delivered.
-- Returns 1 (extended) or 0 (lost) a delivery.
local ready, consumers, consumer = KEYS[1], ARGV[1], ARGV[2]
local exists = redis.call('EXISTS', ready) == 1
local outcomes = {}
for i = 3, #ARGV, 2 do
  local entry, times = ARGV[i], tonumber(ARGV[i + 1])
  local pending = exists and redis.call('XPENDING', ready, consumers, entry, entry, 1)[1]
  if pending and pending[4] == times then
    -- JUSTID leaves the number of deliveries as it is.
    redis.call('XCLAIM', ready, consumers, consumer, 0, entry, 'JUSTID')
    outcomes[#outcomes + 1] = 1
  else
    outcomes[#outcomes + 1] = 0
  end
end
return outcomes
