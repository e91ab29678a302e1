-- Settles deliveries, each only if it is still the current one of its message.
-- KEYS: ready stream, delayed set, number of waiting, dead letters; then the list of each group.
-- ARGV: consumer group, most attempts, most dead letters, life of the dead letters in ms; then
--   six a delivery: entry, times delivered, verdict (complete, retry, dead_letter, release,
--   abandon), delay in ms, reason, index in KEYS of its group's list or 0.
-- Returns one code a delivery: 0 taken over, 1 done, 2 dead-lettered, 3 not in anybody's hands
--   any more; then how many dead letters made room for newer ones.
local ready, delayed, waiting, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local consumers, most_attempts = ARGV[1], tonumber(ARGV[2])
local most_dead, dead_life = tonumber(ARGV[3]), ARGV[4]
local BEFORE, ARGS = 4, 6
local LOST, DONE, DEAD, GONE = 0, 1, 2, 3

local outcomes, released, dead_before = {}, 0, redis.call('XLEN', dead)
redis.call('ZCARD', delayed)
if not tonumber(redis.call('GET', waiting) or 0) then
  return redis.error_reply('WRONGTYPE the number of waiting messages is no number')
end
for index = 5, #KEYS do
  redis.call('LLEN', KEYS[index])
end
local exists = redis.call('EXISTS', ready) == 1
-- Deletes nothing. A server without memory permits all writes of a script that began with one that
-- needs none, and what frees memory comes last here.
redis.call('XDEL', ready, '0-0')
local time = redis.call('TIME')
-- Rounded up, so that no delay ends early.
local now = time[1] * 1000 + math.ceil(time[2] / 1000)

-- Last of all: where a command before it is refused, as by an ACL, the message is still there.
local function leave(entry)
  redis.call('XACK', ready, consumers, entry)
  redis.call('XDEL', ready, entry)
end

-- Makes a message ready. One of an earlier version, or of none, has no trace.
local function add(message, attempts)
  if message.t and message.t ~= '' then
    redis.call('XADD', ready, '*',
      'i', message.i, 'g', message.g, 'n', attempts, 'b', message.b, 't', message.t)
  else
    redis.call('XADD', ready, '*',
      'i', message.i, 'g', message.g, 'n', attempts, 'b', message.b)
  end
end

-- The head of the group is done with: the next one takes its place.
local function advance(list)
  if list == 0 then
    return
  end
  local next_message = redis.call('LINDEX', KEYS[list], 1)
  if next_message then
    local id, group, body, trace = cmsgpack.unpack(next_message)
    add({i = id, g = group, b = body, t = trace}, 0)
    redis.call('LSET', KEYS[list], 1, '')
    released = released + 1
  end
  redis.call('LPOP', KEYS[list])
end

local function read(entry)
  local found = redis.call('XRANGE', ready, entry, entry)[1]
  if not found then
    return nil
  end
  local fields, message = found[2], {}
  for i = 1, #fields, 2 do
    message[fields[i]] = fields[i + 1]
  end
  if not message.i or not message.b then
    -- Not one of ours: what it holds is kept for whoever put it there.
    return {i = entry, g = '', n = 0, b = cmsgpack.pack(fields)}
  end
  return {i = message.i, g = message.g or '', n = tonumber(message.n) or 0, b = message.b,
    t = message.t}
end

local function bury(message, attempts, reason)
  if message.t then
    redis.call('XADD', dead, 'MAXLEN', most_dead, '*', 'i', message.i, 'g', message.g,
      'n', attempts, 'b', message.b, 'r', reason, 't', message.t)
  else
    redis.call('XADD', dead, 'MAXLEN', most_dead, '*', 'i', message.i, 'g', message.g,
      'n', attempts, 'b', message.b, 'r', reason)
  end
end

local function settle(at)
  local entry, times, verdict = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3]
  local list = tonumber(ARGV[at + 6])
  local pending = exists and redis.call('XPENDING', ready, consumers, entry, entry, 1)[1]
  if not pending then
    return GONE
  elseif pending[4] ~= times then
    return LOST
  elseif verdict == 'complete' then
    advance(list)
    leave(entry)
    return DONE
  end
  local message = read(entry)
  if not message then
    advance(list)
    leave(entry)
    return GONE
  end
  local attempts = message.n + times
  if verdict == 'release' then
    add(message, attempts - 1)
    leave(entry)
    return DONE
  elseif verdict == 'retry' and attempts < most_attempts then
    local delay = tonumber(ARGV[at + 4])
    if delay == 0 then
      add(message, attempts)
    else
      -- The entry, which never comes again, keeps two equal messages apart.
      redis.call('ZADD', delayed, now + delay,
        cmsgpack.pack(message.i, message.g, attempts, message.b, entry, message.t or ''))
    end
    leave(entry)
    return DONE
  end
  -- What is abandoned was taken over to be given up, not to be tried.
  bury(message, verdict == 'abandon' and attempts - 1 or attempts, ARGV[at + 5])
  advance(list)
  leave(entry)
  return DEAD
end

local buried = 0
for at = BEFORE, #ARGV - 1, ARGS do
  local outcome = settle(at)
  outcomes[#outcomes + 1] = outcome
  if outcome == DEAD then
    buried = buried + 1
  end
end
if released > 0 and redis.call('DECRBY', waiting, released) <= 0 then
  redis.call('DEL', waiting)
end
local dropped = 0
if buried > 0 then
  redis.call('PEXPIRE', dead, dead_life)
  dropped = dead_before + buried - redis.call('XLEN', dead)
end
outcomes[#outcomes + 1] = dropped
return outcomes
