-- Above the scripts that know the queue:
-- KEYS   lock, record, queue, places
-- ARGV   token, channel, the verb that publishes, offer_ms, and what the script adds
--
-- The queue is a sorted set of tokens by their order of arrival. It ends in the marks of those who
-- wait without a place, one a client: `*client`. The places are a hash from token to `until_ms:client:owner`; a waiter that
-- has not refreshed its place by then counts as dead. Those who have a place are told on a channel
-- of their client, so that a release wakes whom it concerns.

local function queue_now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function queue_place(until_ms, client, owner)
  return string.format('%.0f', until_ms) .. ':' .. client .. ':' .. owner
end

-- What a place says: until_ms, client, owner; nothing if there is none.
local function queue_read(token)
  local place = redis.call('HGET', KEYS[4], token) or ''
  local until_ms, client, owner = string.match(place, '^(%d+):(%x+):(.*)$')
  return tonumber(until_ms), client, owner
end

local function queue_leave(token)
  redis.call('ZREM', KEYS[3], token)
  redis.call('HDEL', KEYS[4], token)
end

-- The first waiter that lives, its client and its owner; the dead before it are removed. `*` stands
-- for all who wait without a place.
local function queue_first(now_ms)
  while true do
    local token = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    if not token then return nil end
    if string.byte(token) == 42 then return '*' end
    local until_ms, client, owner = queue_read(token)
    if until_ms and until_ms > now_ms then return token, client, owner end
    queue_leave(token)
  end
end

-- Tells those who wait with this client, or without one all who have no place. A message may be
-- lost without harm, so also one that may not be sent.
local function queue_tell(message, client)
  local channel = ARGV[2]
  if client then
    channel = KEYS[1] .. ':waiter:' .. client .. string.sub(channel, #KEYS[1] + 1)
  end
  redis.pcall(ARGV[3], channel, message)
end

-- Tells of an offer to `client` whoever comes next, to ask when its time is over: the client may
-- be dead, and with it all of its waiters.
local function queue_tell_next(message, client)
  for _, token in ipairs(redis.call('ZRANGE', KEYS[3], 1, 8)) do
    if string.byte(token) == 42 then return queue_tell(message) end
    local _, other = queue_read(token)
    if other and other ~= client then return queue_tell(message, other) end
  end
end

-- Grants the free lock to the first waiter for the short life of an offer, and tells it. It keeps
-- its place for as long: whoever lets an offer pass is dead. Gives an error to return, or nothing.
local function queue_offer(token, client, owner, now_ms)
  local fence, refused = lease_grant(KEYS[1], KEYS[2], token, ARGV[4], owner)
  if refused then return refused end
  redis.call('HSET', KEYS[4], token, queue_place(now_ms + ARGV[4], client, owner))
  local offer = token .. ':' .. fence
  queue_tell(offer, client)
  queue_tell_next(offer, client)
end

-- Frees the lock for the first waiter in the queue, or for whoever comes: then those who wait
-- without a place are told.
local function queue_pass_on()
  local now_ms = queue_now_ms()
  local token, client, owner = queue_first(now_ms)
  -- A release has to succeed where memory is full, too, and it does if it begins by freeing some.
  redis.call('DEL', KEYS[1])
  if not token then return end
  if token == '*' then
    -- All hear which client is to ask first; the others ask a little later, unless they hear of
    -- another release before. A client that is dead, or waits no longer, is named but once.
    local mark = redis.call('ZRANDMEMBER', KEYS[3])
    redis.call('ZREM', KEYS[3], mark)
    queue_tell(string.sub(mark, 2))
  elseif queue_offer(token, client, owner, now_ms) then
    -- It could not be granted here, so let the waiter ask.
    queue_tell('', client)
  end
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
