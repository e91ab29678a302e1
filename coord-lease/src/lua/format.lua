-- The stored form of a lease, for every script that grants, reads, renews or ends one.
--   key     `token:fence`                    who holds it; lives for the TTL
--   record  `fence:since_ms:owner`           the last grant; outlives the lease by a day, so that
--                                            the next fence is larger
-- Writes go through pcall and hand on what the server refused: an error that a script raises
-- reaches the client of Redis 6.2 without its code.

local LEASE_RECORD_MS = 86400000
local LEASE_FENCE_MAX = 9007199254740991

local function lease_foreign(key)
  return {err = 'WRONGTYPE ' .. key .. ' holds something else than a lease'}
end

local function lease_refused(reply)
  return type(reply) == 'table' and reply.err
end

-- Nothing when the key is free, else its token and fence; the second value is an error to return.
local function lease_read(key)
  local value = redis.pcall('GET', key)
  if not value then return nil end
  if type(value) ~= 'string' then return nil, value end
  local token, fence = string.match(value, '^(%x+):(%d+)$')
  if not token or #token ~= 32 then return nil, lease_foreign(key) end
  return {token = token, fence = fence}
end

-- The fence of the last grant, nil before the first; the second value is an error to return.
local function lease_last_fence(record)
  local value = redis.pcall('GET', record)
  if not value then return nil end
  if type(value) ~= 'string' then return nil, value end
  local fence = string.match(value, '^(%d+):%d+:')
  if not fence then return nil, lease_foreign(record) end
  return fence
end

-- Grants a key that may be granted; gives the fence, or nothing and an error to return. The fence
-- is the time in microseconds, put together and compared as text, since numbers cost the server
-- several times as much; they are for the rare case that the clock went back.
local function lease_grant(key, record, token, ttl_ms, owner)
  local last, foreign = lease_last_fence(record)
  if foreign then return nil, foreign end
  local time = redis.call('TIME')
  local second, micros = time[1], string.sub('00000' .. time[2], -6)
  local fence = second .. micros
  if last and (#last > #fence or (#last == #fence and last >= fence)) then
    last = tonumber(last)
    if last >= LEASE_FENCE_MAX then return nil, lease_foreign(record) end
    fence = string.format('%.0f', last + 1)
  end
  local since_ms = second .. string.sub(micros, 1, 3)
  local set = redis.pcall('SET', record, fence .. ':' .. since_ms .. ':' .. owner,
    'PX', ttl_ms + LEASE_RECORD_MS)
  if lease_refused(set) then return nil, set end
  set = redis.pcall('SET', key, token .. ':' .. fence, 'PX', ttl_ms)
  if lease_refused(set) then return nil, set end
  return fence
end

-- Extends a key whose holder was compared; gives an error to return, or nothing.
local function lease_extend(key, record, ttl_ms)
  local extended = redis.pcall('PEXPIRE', key, ttl_ms)
  if lease_refused(extended) then return extended end
  redis.pcall('PEXPIRE', record, ttl_ms + LEASE_RECORD_MS)
end

-- Who holds the key: {fence, record or nil, ms left}.
local function lease_holder(key, record, held)
  local value = redis.pcall('GET', record)
  return {held.fence, type(value) == 'string' and value, redis.call('PTTL', key)}
end
