-- Enqueues the messages that are new, all of them or none.
-- KEYS: ready stream, delayed set, number of waiting; then one key a message that remembers its
--   id; then the list of each group.
-- ARGV: consumer group, window in ms, most open messages, token of this call, number of messages;
--   then five a message: id, name of its group or '', body, its trace or '', index in KEYS of its
--   group's list.
-- Returns 1 (added) or 0 (duplicate) a message; the number of open messages alone when they
--   are too many, and then nothing was added.
local ready, delayed, waiting = KEYS[1], KEYS[2], KEYS[3]
local consumers, window, most, token = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local count = tonumber(ARGV[5])
local BEFORE_KEYS, BEFORE_ARGS, ARGS = 3, 5, 5

local behind = tonumber(redis.call('GET', waiting) or 0)
if not behind then
  return redis.error_reply('WRONGTYPE the number of waiting messages is no number')
end
local open = redis.call('XLEN', ready) + redis.call('ZCARD', delayed) + behind
local lengths = {}
for index = BEFORE_KEYS + count + 1, #KEYS do
  lengths[index] = redis.call('LLEN', KEYS[index])
end
if open + count > most then
  local seen, new = {}, 0
  for i = 1, count do
    local key = KEYS[BEFORE_KEYS + i]
    if not seen[key] and redis.call('EXISTS', key) == 0 then
      new = new + 1
    end
    seen[key] = true
  end
  if new > 0 and open + new > most then
    return open
  end
end

if redis.call('EXISTS', ready) == 0 then
  redis.call('XGROUP', 'CREATE', ready, consumers, '0', 'MKSTREAM')
end
local outcomes, held_back = {}, 0
for i = 1, count do
  local key, at = KEYS[BEFORE_KEYS + i], BEFORE_ARGS + ARGS * (i - 1)
  local mark = token .. ':' .. i
  if redis.call('SET', key, mark, 'NX', 'PX', window) then
    local id, group, body, trace = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local list = tonumber(ARGV[at + 5])
    if group ~= '' and lengths[list] > 0 then
      redis.call('RPUSH', KEYS[list], cmsgpack.pack(id, group, body, trace))
      held_back = held_back + 1
    else
      if group ~= '' then
        -- The head of the group is elsewhere; its place in the list is empty.
        redis.call('RPUSH', KEYS[list], '')
      end
      if trace == '' then
        redis.call('XADD', ready, '*', 'i', id, 'g', group, 'n', 0, 'b', body)
      else
        redis.call('XADD', ready, '*', 'i', id, 'g', group, 'n', 0, 'b', body, 't', trace)
      end
    end
    if group ~= '' then
      lengths[list] = lengths[list] + 1
    end
    outcomes[i] = 1
  else
    -- The mark of this very call is there when it was executed before and is sent again.
    outcomes[i] = redis.pcall('GET', key) == mark and 1 or 0
  end
end
if held_back > 0 then
  redis.call('INCRBY', waiting, held_back)
end
return outcomes
