-- Claims the due ticks of tenants: each as far as it is due on the server's clock, later than the
-- last one, and nobody else's.
-- KEYS   of each tenant: the lock, the record beside it, the last tick
-- ARGV   owner, life of a last tick in ms; then of each tenant:
--        token, ttl_ms, last tick that the caller knows or '', 'next' or 'now' (the first run),
--        shift_ms, newest due instant or '', count of instants to cover, these instants
-- Reply  {now_ms, of each tenant one of
--          {'idle', last}                    nothing is due
--          {'first', last}                   nothing was known: the tenant's ticks begin now
--          {'busy', last, ms_left, pause}    somebody has it, or (pause 1) a scan failed
--          {'passed', last}                  due, but not to be run: done with
--          {'granted', last, fence, instant...}
--          {'foreign'}}                      something else is stored there
--        where last is nil while there is none
--
-- The lock holds a lease in its stored form while a tick is scanned, then `done:fence:instant` as
-- the cooldown, or `pause:fence` after a scan that failed.

local function decimal(number)
  return string.format('%.0f', number)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local owner, kept_ms = ARGV[1], ARGV[2]

-- The lock as a table, or nothing and an error.
local function read_lock(key)
  local value = redis.pcall('GET', key)
  if not value then return {} end
  if type(value) ~= 'string' then return nil, value end
  local done = string.match(value, '^done:%d+:(%d+)$')
  if done then return {done = tonumber(done)} end
  if string.match(value, '^pause:%d+$') then return {pause = true} end
  local lease, foreign = lease_read(key)
  return lease and {lease = lease}, foreign
end

-- The stored last tick, nil when there is none; or nothing and an error.
local function read_last(key)
  local value = redis.pcall('GET', key)
  if not value then return nil end
  local last = type(value) == 'string' and string.match(value, '^%d+$') and tonumber(value)
  if not last then return nil, true end
  return last
end

local function latest(...)
  local found
  for index = 1, 3 do
    local instant = select(index, ...)
    if instant and (not found or instant > found) then found = instant end
  end
  return found
end

local function claim(keys, tenant)
  local lock_key, record_key, last_key = keys[1], keys[2], keys[3]
  local lock, foreign = read_lock(lock_key)
  if not lock then return {'foreign'} end
  local stored, unreadable = read_last(last_key)
  if unreadable then return {'foreign'} end

  -- Whoever remembers a tick that the server has lost restores it; but not one in the future,
  -- which somebody may have removed because the server's clock was wrong.
  local known = tenant.known and tenant.known <= now and tenant.known or nil
  local done = lock.done and lock.done <= now and lock.done or nil
  local last = latest(stored, known, done)
  if not last and tenant.first == 'next' then
    local set = redis.pcall('SET', last_key, decimal(now), 'PX', kept_ms)
    return lease_refused(set) and set or {'first', decimal(now)}
  end
  if last ~= stored then
    local set = redis.pcall('SET', last_key, decimal(last), 'PX', kept_ms)
    if lease_refused(set) then return set end
  end

  local told = last and decimal(last) or false
  local due = tenant.upto and tenant.upto + tenant.shift <= now
  if not due or (last and tenant.upto <= last) then return {'idle', told} end
  local is_ours = lock.lease and lock.lease.token == tenant.token
  if lock.pause or (lock.lease and not is_ours) then
    return {'busy', told, redis.call('PTTL', lock_key), lock.pause and 1 or 0}
  end

  local cover = {}
  for _, instant in ipairs(tenant.cover) do
    if not last or instant > last then cover[#cover + 1] = decimal(instant) end
  end
  if #cover == 0 then
    local set = redis.pcall('SET', last_key, decimal(tenant.upto), 'PX', kept_ms)
    if lease_refused(set) then return set end
    if is_ours then redis.call('DEL', lock_key) end
    return {'passed', told}
  end

  local fence, refused
  if is_ours then
    fence = lock.lease.fence
    refused = lease_extend(lock_key, record_key, tenant.ttl)
  else
    fence, refused = lease_grant(lock_key, record_key, tenant.token, tenant.ttl, owner)
  end
  if refused then return refused end
  return {'granted', told, fence, unpack(cover)}
end

local answers = {decimal(now)}
local index = 3
for key = 1, #KEYS, 3 do
  local count = tonumber(ARGV[index + 6])
  local tenant = {
    token = ARGV[index],
    ttl = ARGV[index + 1],
    known = tonumber(ARGV[index + 2]),
    first = ARGV[index + 3],
    shift = tonumber(ARGV[index + 4]),
    upto = tonumber(ARGV[index + 5]),
    cover = {},
  }
  for instant = 1, count do
    tenant.cover[instant] = tonumber(ARGV[index + 6 + instant])
  end
  index = index + 7 + count
  local answer = claim({KEYS[key], KEYS[key + 1], KEYS[key + 2]}, tenant)
  if answer.err then return answer end
  answers[#answers + 1] = answer
end
return answers
