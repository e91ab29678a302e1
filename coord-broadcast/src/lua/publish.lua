-- Gives a message its place, keeps it for replay where that is wanted, and publishes it.
-- KEYS   position, `epoch:sequence` of the last message; log, a stream of the last frames by
--        their sequence
-- ARGV   channel, the verb that publishes, the epoch to begin if there is none, ttl_ms, how many
--        frames the log keeps (0 for no log), origin, body
-- Reply  epoch, sequence, how many connections it was sent to

local function refused(reply)
  return type(reply) == 'table' and reply.err
end

local stored = redis.pcall('GET', KEYS[1])
if refused(stored) then return stored end
local epoch, last = ARGV[3], 0
if stored then
  epoch, last = string.match(stored, '^(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x):(%d+)$')
  if not epoch then
    return redis.error_reply('WRONGTYPE the position of a topic is something else')
  end
end
local kept = ARGV[5] ~= '0'
if kept then
  local length = redis.pcall('XLEN', KEYS[2])
  if refused(length) then return length end
end
-- `..` would write a large number in floating point.
local sequence = string.format('%.0f', last + 1)
local position = epoch .. ':' .. sequence
-- Lua hashes every byte of every string: the body is in the argument and in this one, and in no third.
local frame = '1:' .. position .. ':' .. ARGV[6] .. ':' .. ARGV[7]

local set = redis.pcall('SET', KEYS[1], position, 'PX', ARGV[4])
if refused(set) then return set end
local sent = redis.pcall(ARGV[2], ARGV[1], frame)
if refused(sent) then
  -- The user may not publish there. Whether it may is known by trying, so the count is undone.
  if stored then
    redis.call('SET', KEYS[1], stored, 'PX', ARGV[4])
  else
    redis.call('DEL', KEYS[1])
  end
  return redis.error_reply('NOPERM ' .. sent.err)
end
if kept then
  local function append()
    return redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], sequence .. '-0', 'f', frame)
  end
  if refused(append()) then
    -- It goes on beyond this sequence: the log of an earlier epoch, or of writes that were lost.
    redis.call('DEL', KEYS[2])
    append()
  end
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
return { epoch, sequence, sent }
