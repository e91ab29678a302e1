-- Above the scripts that know the queue:
-- KEYS   lock, record, queue, places
-- ARGV   token, channel, the verb that publishes, offer_ms, and what the script adds
--
-- The queue is a sorted set of tokens by their order of arrival. It ends in `*` while somebody
-- waits without a place. The places are a hash from token to `until_ms:owner`; a waiter that has
-- not refreshed its place by then counts as dead.

local function queue_now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function queue_place(until_ms, owner)
  return string.format('%.0f', until_ms) .. ':' .. owner
end

local function queue_leave(token)
  redis.call('ZREM', KEYS[3], token)
  redis.call('HDEL', KEYS[4], token)
end

-- The first waiter that lives, and its owner; the dead before it are removed. `*` stands for all
-- who wait without a place.
local function queue_first(now_ms)
  while true do
    local token = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    if not token or token == '*' then return token end
    local place = redis.call('HGET', KEYS[4], token) or ''
    local until_ms, owner = string.match(place, '^(%d+):(.*)$')
    if until_ms and tonumber(until_ms) > now_ms then return token, owner end
    queue_leave(token)
  end
end

-- Tells all who wait. A message may be lost without harm, so also one that may not be sent.
local function queue_tell(message)
  redis.pcall(ARGV[3], ARGV[2], message)
end

-- Grants the free lock to a waiter for the short life of an offer, and tells it. It keeps its
-- place for as long: whoever lets an offer pass is dead. Gives an error to return, or nothing.
local function queue_offer(token, owner, now_ms)
  local fence, refused = lease_grant(KEYS[1], KEYS[2], token, ARGV[4], owner)
  if refused then return refused end
  redis.call('HSET', KEYS[4], token, queue_place(now_ms + ARGV[4], owner))
  queue_tell(token)
end

-- Frees the lock for the first waiter in the queue, or for whoever comes: then those who wait
-- without a place are told.
local function queue_pass_on()
  local now_ms = queue_now_ms()
  local token, owner = queue_first(now_ms)
  -- A release has to succeed where memory is full, too, and it does if it begins by freeing some.
  redis.call('DEL', KEYS[1])
  if not token then return end
  if token == '*' then
    -- All of them are told, and whoever goes on waiting leaves the mark anew.
    redis.call('DEL', KEYS[3])
  elseif not queue_offer(token, owner, now_ms) then
    return
  end
  queue_tell('')
end

-- An error to return if the record, the queue or the places are something else, or nothing.
local function queue_foreign()
  local replies = {
    redis.pcall('STRLEN', KEYS[2]), redis.pcall('ZCARD', KEYS[3]), redis.pcall('HLEN', KEYS[4]),
  }
  for index = 1, 3 do
    if lease_refused(replies[index]) then return replies[index] end
  end
end
