-- Takes the lock if it is free and nobody comes first in the queue; else keeps a place there. The
-- owner of the token is granted what it has, for the whole TTL: so it confirms an offer.
-- KEYS   as queue.lua says
-- ARGV   as queue.lua says, then ttl_ms, owner, place_ms, for which a place is kept without a
--        refresh (0 takes none), and the client that is told
-- Reply  the fence: granted; the holder: somebody else has it

local token, ttl_ms, owner = ARGV[1], ARGV[5], ARGV[6]
local place_ms, client = tonumber(ARGV[7]), ARGV[8]
local held, foreign = lease_read(KEYS[1])
foreign = foreign or queue_foreign()
if foreign then return foreign end

if held and held.token == token then
  local refused = lease_extend(KEYS[1], KEYS[2], ttl_ms)
  if refused then return refused end
  queue_leave(token)
  return held.fence
end

local now_ms = queue_now_ms()
local placed = redis.call('HEXISTS', KEYS[4], token) == 1
if placed then
  local set = redis.pcall('HSET', KEYS[4], token, queue_place(now_ms + place_ms, client, owner))
  if lease_refused(set) then return set end
end

if not held then
  local first, first_client, first_owner = queue_first(now_ms)
  local refused
  if not first or first == '*' or first == token then
    local fence
    fence, refused = lease_grant(KEYS[1], KEYS[2], token, ttl_ms, owner)
    if fence then
      queue_leave(token)
      return fence
    end
  else
    refused = queue_offer(first, first_client, first_owner, now_ms)
  end
  if refused then return refused end
  held = lease_read(KEYS[1])
end

if place_ms > 0 then
  if not placed then
    -- Behind all others, also when the server's clock went back.
    local last = redis.call('ZREVRANGEBYSCORE', KEYS[3], '(+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local score = math.max(now_ms, (tonumber(last[2]) or 0) + 1)
    local added = redis.pcall('ZADD', KEYS[3], string.format('%.0f', score), token)
    if lease_refused(added) then return added end
    redis.call('HSET', KEYS[4], token, queue_place(now_ms + place_ms, client, owner))
  end
  for index = 3, 4 do
    if redis.call('PTTL', KEYS[index]) < place_ms then
      redis.call('PEXPIRE', KEYS[index], place_ms)
    end
  end
end
return lease_holder(KEYS[1], KEYS[2], held)
